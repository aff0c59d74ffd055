"""Results files side by side: one side a device, or a run where a device has several.

Covers: the outer join over problem, solution, size and dtype; geometric means over what all
sides have. Rows of another problem or solution text, size or dtype are other rows: they stand
apart and are never averaged. What differs: sides.py. Two runs on one device: changes.py. How it
is shown: compare_tables.py.
"""

from __future__ import annotations

import dataclasses
import math
import os
import statistics
import string
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from harness import results
from harness.errors import RequestError
from harness.records import MODES, Value
from harness.report.changes import Change, RunPair, run_pairs
from harness.report.sides import Difference, PlainRow, Side, differences
from harness.wording import counted

#: Of each mode, what plain data states for a side.
JSON_FIELDS = ("speedup", "low", "high", "reference_ms", "solution_ms", "limit_fraction")


Only = Mapping[str, Collection[str]]


class Key(NamedTuple):
    """What two rows must agree in to stand in one line."""

    problem: str
    problem_digest: str
    solution: str
    solution_digest: str
    size: str
    dtype: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One result on every side: label -> row; a side that lacks it has no item."""

    key: Key
    rows: Mapping[str, PlainRow]

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes that any side has timed."""
        return tuple(m for m in MODES if any(r[f"{m}_solution_ms"] for r in self.rows.values()))


@dataclass(frozen=True, kw_only=True)
class Mean:
    """Geometric mean of one mode's credited speedups, over the `count` rows that all sides have.

    `values`: label -> mean.
    """

    size: str
    dtype: str
    mode: str
    count: int
    values: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All that is known about the sides together. `notes`: what was left out, and why."""

    sides: tuple[Side, ...]
    entries: tuple[Entry, ...]
    differences: tuple[Difference, ...]
    means: tuple[Mean, ...]
    pairs: tuple[RunPair, ...]
    notes: tuple[str, ...] = ()


def read(paths: Sequence[Path], only: Only | None = None) -> Comparison:
    """Compare results files; `only`: column -> the values of which rows count.

    Raises `RequestError` where a file is none, or no rows are left.
    """
    frames: dict[Path, pd.DataFrame] = {}
    notes = []
    for path in paths:
        if os.path.realpath(path) in {os.path.realpath(known) for known in frames}:
            notes.append(f"{path} was named twice: taken once")
        else:
            frames[path] = results.read(path)
            for column, values in (only or {}).items():
                frames[path] = frames[path][frames[path][column].isin(values)]
    if only and all(frame.empty for frame in frames.values()):
        asked = " and ".join(f"{column} {', '.join(values)}" for column, values in only.items())
        raise RequestError(f"no rows of {asked} in {', '.join(map(str, frames))}")
    names = [path.name for path in frames]
    texts = {path: path.name if names.count(path.name) == 1 else str(path) for path in frames}
    return compare([(texts[path], frame) for path, frame in frames.items()], notes)


def compare(frames: Sequence[tuple[str, pd.DataFrame]], notes: Sequence[str] = ()) -> Comparison:
    """Compare frames as `results.read` gives them, each with the name of its file.

    Of rows that agree in `results.KEY` within a file, the newest counts; a note says so.
    Raises `RequestError` where there are no rows.
    """
    sides: list[Side] = []
    told = list(notes)
    for file, frame in frames:
        newest = results.latest(frame)
        if older := len(frame) - len(newest):
            told.append(
                f"{file}: {counted(older, 'older row')} of the same result left out: newest counts"
            )
        if newest.empty:
            told.append(f"{file}: has no rows")
        rows = results.plain(newest)
        for device in dict.fromkeys(str(row["device_name"]) for row in rows):
            own = tuple(row for row in rows if row["device_name"] == device)
            label = _letters(len(sides))
            sides.append(Side(label=label, device_name=device, file=file, rows=own))
    if not sides:
        raise RequestError(
            f"no rows in {', '.join(file for file, _ in frames)}: evaluate something first"
        )
    entries = _join(sides)
    return Comparison(
        sides=tuple(sides),
        entries=entries,
        differences=differences(sides),
        means=_means(sides, entries),
        pairs=run_pairs(sides),
        notes=tuple(told),
    )


def _letters(number: int) -> str:
    """A, B, ... Z, AA, AB, ..."""
    above, letter = divmod(number, 26)
    return (_letters(above - 1) if above else "") + string.ascii_uppercase[letter]


def _join(sides: Iterable[Side]) -> tuple[Entry, ...]:
    """The outer join: nothing that any side has is left out."""
    joined: dict[Key, dict[str, PlainRow]] = {}
    for side in sides:
        for row in side.rows:
            key = Key(*(str(row[name] or "") for name in Key._fields))
            joined.setdefault(key, {})[side.label] = row
    return tuple(Entry(key=key, rows=joined[key]) for key in sorted(joined, key=_order))


def _order(key: Key) -> tuple[str, ...]:
    """By problem, size and dtype, which share a table; then by solution."""
    return (key.problem, key.size, key.dtype, key.solution, key.problem_digest, key.solution_digest)


def _means(sides: Sequence[Side], entries: Iterable[Entry]) -> tuple[Mean, ...]:
    """Per size, dtype and mode; nothing where no row is credited on every side."""
    ratios: dict[tuple[str, str, int], list[dict[str, float]]] = {}
    for entry in entries:
        for number, mode in enumerate(MODES):
            stated = {label: row[f"{mode}_speedup"] for label, row in entry.rows.items()}
            credited = {
                label: ratio
                for label, ratio in stated.items()
                if isinstance(ratio, float) and 0 < ratio < math.inf
            }
            if len(credited) == len(sides):
                key = (entry.key.size, entry.key.dtype, number)
                ratios.setdefault(key, []).append(credited)
    return tuple(
        Mean(
            size=size,
            dtype=dtype,
            mode=MODES[number],
            count=len(rows),
            values={
                side.label: statistics.geometric_mean(row[side.label] for row in rows)
                for side in sides
            },
        )
        for (size, dtype, number), rows in sorted(ratios.items())
    )


# --- as plain data ------------------------------------------------------------------------------


def plain(comparison: Comparison) -> dict[str, Any]:
    """The comparison for a program; units as in a results file, missing is None."""
    return {
        "sides": [
            {"label": s.label, "device_name": s.device_name, "file": s.file, "rows": len(s.rows)}
            for s in comparison.sides
        ],
        "rows": [
            {**e.key._asdict(), "mode": mode, "sides": _plain_sides(e, comparison.sides, mode)}
            for e in comparison.entries
            for mode in e.modes or (None,)
        ],
        "geometric_means": [dataclasses.asdict(mean) for mean in comparison.means],
        "differences": [dataclasses.asdict(one) for one in comparison.differences],
        "changes": [_plain_change(pair, c) for pair in comparison.pairs for c in pair.changes],
        "notes": list(comparison.notes),
    }


def _plain_sides(
    entry: Entry, sides: Sequence[Side], mode: str | None
) -> dict[str, dict[str, Value] | None]:
    found: dict[str, dict[str, Value] | None] = {}
    for side in sides:
        row = entry.rows.get(side.label)
        values = {} if row is None or not mode else {f: row[f"{mode}_{f}"] for f in JSON_FIELDS}
        found[side.label] = None if row is None else {"status": row["status"], **values}
    return found


def _plain_change(pair: RunPair, change: Change) -> dict[str, Value]:
    names = ("problem", "solution", "size", "dtype")
    return {
        "kind": change.kind.value,
        "before": pair.before.label,
        "after": pair.after.label,
        **{name: change.row[name] for name in names},
        "mode": change.mode or None,
        "edited": change.edited,
    }
