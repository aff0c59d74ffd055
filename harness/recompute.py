"""Whether the figures of a results file follow from the raw samples that were kept.

Covers times, speedups and intervals. Does not cover what takes more than a row's own samples
(the compiled baseline, limits, memory), nor whether the samples are honest (judge/audit.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness import results, samples
from harness.errors import RequestError
from harness.records import CREDITED_FIELDS, MODES, Phase, Status, Timing, Value, Verdict
from harness.report import tables
from harness.wording import counted

#: What is worked out again, of each mode.
FIELDS = ("reference_ms", "solution_ms", "speedup", "low", "high")
TOLERANCE = 1e-9  # relative


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One row, as `results.plain` has it, and where it differs from its samples.

    `differences` has a line for each; None where the row has no samples.
    """

    row: Mapping[str, Value]
    differences: tuple[str, ...] | None

    @property
    def outcome(self) -> str:
        if self.differences is None:
            return "no samples"
        return "differs" if self.differences else "agrees"


def compare(path: Path, raw: Path) -> list[Comparison]:
    """Compare each row of the results file `path` that states a figure with its samples in `raw`.

    Raises `RequestError` where `path` is no results file or `raw` no folder.
    """
    rows = results.plain(results.read(path))
    if not raw.is_dir():
        raise RequestError(f"no folder of raw samples {raw}: name another with --raw")
    compared = [_compare(row, raw) for row in rows]
    return [
        c for c in compared if c.differences is not None or {*_stated(c.row).values()} != {None}
    ]


def _compare(row: Mapping[str, Value], raw: Path) -> Comparison:
    name = samples.name_of(str(row["run_id"]), str(row["problem"]), str(row["solution"]))
    file = samples.file_for(name, raw)
    if not file.exists():
        return Comparison(row=row, differences=None)
    try:
        expected = figures(samples.load(file), Status(row["status"]))
        differences = tuple(
            f"{column} is {_text(stated)}, and the samples give {_text(expected[column])}"
            for column, stated in _stated(row).items()
            if not _same(stated, expected[column])
        )
    except (RequestError, ValueError, ArithmeticError) as error:
        differences = (f"cannot be worked out: {error}",)
    return Comparison(row=row, differences=differences)


def figures(timings: Mapping[str, Timing], status: Status) -> dict[str, float | None]:
    """Column -> value for `FIELDS` of every mode; None where not timed, or not credited.

    Raises `ValueError` for a timing without blocks, `OverflowError` for absurd times.
    """
    credited = Verdict(status=status, phase=Phase.DONE).credited_modes
    values: dict[str, float | None] = {}
    for mode in MODES:
        found: dict[str, float | None] = dict.fromkeys(FIELDS)
        if timing := timings.get(mode):
            ratio = timing.interval
            times = (timing.reference_ms, timing.solution_ms)
            found = dict(zip(FIELDS, (*times, ratio.ratio, ratio.low, ratio.high), strict=True))
        if mode not in credited:
            found |= {field: None for field in FIELDS if field in CREDITED_FIELDS}
        values |= {f"{mode}_{field}": value for field, value in found.items()}
    return values


def _stated(row: Mapping[str, Value]) -> dict[str, Value]:
    return {column: row[column] for mode in MODES for column in (f"{mode}_{f}" for f in FIELDS)}


def _same(stated: Value, expected: float | None) -> bool:
    if stated is None or expected is None or isinstance(stated, str):
        return stated is expected
    return math.isclose(stated, expected, rel_tol=TOLERANCE)


def _text(value: Value) -> str:
    return "missing" if value is None else f"{value:.12g}"


def table(compared: Sequence[Comparison]) -> RenderableType:
    """One line a row, below it what differs, and last how many there are of each outcome."""
    rows = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for header in ("problem", "solution", "run", "outcome"):
        rows.add_column(header, overflow="fold")
    notes = []
    for comparison in compared:
        problem, solution, run = (
            tables.one_line(str(comparison.row[name])) for name in ("problem", "solution", "run_id")
        )
        style = "red" if comparison.differences else ""
        rows.add_row(*map(Text, (problem, solution, run)), Text(comparison.outcome, style=style))
        for line in comparison.differences or ():
            notes.append(Text(f"{problem} / {solution}: {tables.one_line(line)}"))
    outcomes = [comparison.outcome for comparison in compared]
    agree, differ, lost = (outcomes.count(name) for name in ("agrees", "differs", "no samples"))
    total = f"{agree} agreeing, {differ} differing, {lost} not sampled"
    return Group(rows, *notes, Text(f"{counted(len(compared), 'row')}: {total}"))
