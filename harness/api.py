"""The harness from Python: evaluate, compare, and rows as records or as a table."""

from __future__ import annotations

import hashlib
import tempfile
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from harness import results, run
from harness.config import Settings
from harness.judge.case import Opened
from harness.records import Row
from harness.report import comparison
from harness.report.comparison import Comparison

#: Evaluations of one process take turns: they share its random numbers, its cores and its device.
_turn = threading.Lock()


class Judge:
    """Judges one solution after another; threads that ask at once wait for one another.

    The problem of the last one stays open: its reference is loaded, tried and measured once for
    all solutions that follow within ten minutes, and takes memory of the device until then
    (`close`, or the end of a `with` block, gives it back).
    """

    def __init__(
        self, settings: Settings | None = None, *, output: str | Path | None = None
    ) -> None:
        """Rows are appended to `output`, by default the results CSV of the device; raw samples and
        logs go beside it."""
        self._settings = settings or Settings()
        self._output = Path(output) if output else None
        self._opened = Opened()

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def evaluate(self, problem: str | Path, solution: str | Path) -> Row:
        """Judge one solution of one problem; both by name or by path.

        For what a program wrote use `evaluate_text`: its `cuda` would be the solution of that name.
        A reward should come from `row.flat()`, which leaves out every speedup that the verdict
        does not credit. Raises `errors.RequestError` for an unknown name, `errors.MachineError`
        where this machine cannot do it; whatever the solution does wrong is a verdict.
        """
        request = run.Request(
            settings=self._settings,
            problem=str(problem),
            solution=str(solution),
            output=self._output,
            fresh=True,
        )
        with _turn:
            return run.execute(request, run.Silent(), self._opened)[0]

    def evaluate_text(self, problem: str | Path, text: str) -> Row:
        """Judge a solution's source, or the raw answer of a model that holds it in a fenced block.

        The row's solution is `answer_` and the start of the text's SHA-256. Raises as `evaluate`.
        """
        data = text.encode("utf-8", "replace")
        name = f"answer_{hashlib.sha256(data).hexdigest()[:12]}"
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, f"{name}.md")
            file.write_bytes(data)
            return self.evaluate(problem, file)

    def close(self) -> None:
        """Let go of the problem that is open."""
        self._opened.close()


def evaluate(
    problem: str | Path,
    solution: str | Path,
    settings: Settings | None = None,
    *,
    output: str | Path | None = None,
) -> Row:
    """Judge one solution of one problem, as `Judge` does."""
    with Judge(settings, output=output) as judge:
        return judge.evaluate(problem, solution)


def compare(files: str | Path | Sequence[str | Path]) -> Comparison:
    """Results files, or one, side by side, as `run_eval.py compare` has them: `sides`, `entries`
    (the outer join), `differences`, `means` (geometric, over what all sides have) and `pairs` (two
    runs on one device: what got slower or faster). Raises `errors.RequestError` for what is no
    results file, or where all are empty."""
    named = [files] if isinstance(files, str | Path) else files
    return comparison.read([Path(file) for file in named])


def read(file: str | Path) -> list[Row]:
    """The rows of a results file that count: the newest of each problem, solution, size, dtype and
    device. Raises `errors.RequestError` where there is no such file."""
    return [results.to_row(row) for row in results.plain(results.latest(results.read(Path(file))))]


def frame(rows: Iterable[Row]) -> pd.DataFrame:
    """Rows as a table: a column for each of `records.COLUMNS`, missing as None, NaN or NA.
    Speedups that are not credited are missing."""
    return results.frame_of(row.flat() for row in rows)
