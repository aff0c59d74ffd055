"""The harness from Python: `harness.evaluate`."""

from __future__ import annotations

from pathlib import Path

from harness import run
from harness.config import Settings
from harness.records import Row


class _Silent:
    """An observer that says nothing."""

    def begin(self, problem: str, solution: str, size: str) -> None: ...

    def note(self, text: str) -> None: ...

    def row(self, row: Row) -> None: ...

    def warn(self, text: str) -> None: ...


def evaluate(
    problem: str | Path,
    solution: str | Path,
    settings: Settings | None = None,
    *,
    output: Path | None = None,
) -> Row:
    """Judge one solution of one problem; both by name or by path.

    The row is appended to `output`, by default the results CSV of the device. A reward should
    come from `row.flat()`, which leaves out every speedup that the verdict does not credit.
    Raises `errors.RequestError` for an unknown name, `errors.MachineError` where this machine
    cannot do it; whatever the solution does wrong is a verdict.
    """
    request = run.Request(
        settings=settings or Settings(),
        problem=str(problem),
        solution=str(solution),
        output=output,
        fresh=True,
    )
    return run.execute(request, _Silent())[0]
