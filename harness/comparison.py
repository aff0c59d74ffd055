"""Results files side by side: one side a device, or a run where a device has several.

Covers: the outer join over problem, solution, size and dtype; what differs between the sides;
geometric means over what all sides have. Rows of another problem or solution text, size or
dtype are other rows: they stand apart and are never averaged. Two runs on one device:
changes.py. How it is shown: report_compare.py.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from harness import results
from harness.errors import RequestError
from harness.records import MODES, Value

PlainRow = Mapping[str, Value]  # as `results.plain` has it


class Key(NamedTuple):
    """What two rows must agree in to stand in one line."""

    problem: str
    problem_digest: str
    solution: str
    solution_digest: str
    size: str
    dtype: str


@dataclass(frozen=True, kw_only=True)
class Side:
    """One column: the newest rows of one device in one file. `label` is a short letter."""

    label: str
    device_name: str
    file: str
    rows: tuple[PlainRow, ...]

    @property
    def newest(self) -> str:
        """The time of its newest row."""
        return max(str(row["time"] or "") for row in self.rows)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One result on every side: label -> row; a side that lacks it has no item."""

    key: Key
    rows: Mapping[str, PlainRow]

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes that any side has timed."""
        timed = [m for m in MODES if any(r[f"{m}_solution_ms"] for r in self.rows.values())]
        return tuple(timed)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """What is not the same on all sides: label -> its values. `apart`: those rows stand apart.

    `where` is a problem, or a problem and a solution; empty: the sides as a whole.
    """

    name: str
    values: Mapping[str, tuple[str, ...]]
    where: str = ""
    apart: bool = False


@dataclass(frozen=True, kw_only=True)
class Mean:
    """Geometric mean of one mode's credited speedups, over the `count` rows that all sides have."""

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
    notes: tuple[str, ...] = field(default=())


def read(paths: Sequence[Path]) -> Comparison:
    """Compare results files. Raises `RequestError` where a file is none, or all are empty."""
    frames: dict[Path, pd.DataFrame] = {}
    notes = []
    for path in paths:
        if path.resolve() in {known.resolve() for known in frames}:
            notes.append(f"{path} was named twice: taken once")
        else:
            frames[path] = results.read(path)
    names = [path.name for path in frames]
    texts = {p: p.name if names.count(p.name) == 1 else str(p) for p in frames}
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
            told.append(f"{file}: {older} older row(s) of the same result left out: newest counts")
        rows = results.plain(newest)
        for device in dict.fromkeys(str(row["device_name"]) for row in rows):
            own = tuple(row for row in rows if row["device_name"] == device)
            label = _letters(len(sides))
            sides.append(Side(label=label, device_name=device, file=file, rows=own))
    if not sides:
        raise RequestError("there are no rows to compare: evaluate something first")
    entries = _join(sides)
    return Comparison(
        sides=tuple(sides),
        entries=entries,
        differences=(*_apart(sides), *_settings(sides)),
        means=_means(sides, entries),
        notes=tuple(told),
    )


def _letters(number: int) -> str:
    """A, B, ... Z, AA, AB, ..."""
    above, letter = divmod(number, 26)
    return (_letters(above - 1) if above else "") + string.ascii_uppercase[letter]


def key_of(row: PlainRow) -> Key:
    """What the row is a result of."""
    return Key(*(str(row[name] or "") for name in Key._fields))


def _join(sides: Iterable[Side]) -> tuple[Entry, ...]:
    """The outer join: nothing that any side has is left out."""
    joined: dict[Key, dict[str, PlainRow]] = {}
    for side in sides:
        for row in side.rows:
            joined.setdefault(key_of(row), {})[side.label] = row
    return tuple(Entry(key=key, rows=joined[key]) for key in sorted(joined, key=_order))


def _order(key: Key) -> tuple[str, ...]:
    """By problem, size and dtype, which share a table; then by solution."""
    return (key.problem, key.size, key.dtype, key.solution, key.problem_digest, key.solution_digest)


# --- what differs -------------------------------------------------------------------------------


def _digest(value: str) -> str:
    return value[:8]


def _minor(value: str) -> str:
    """`2.13` of `2.13.0+cu130`."""
    match = re.match(r"\d+\.\d+", value)
    return match[0] if match else value


def _whole(value: str) -> str:
    return value


#: Column -> its name and what of it counts. These rows stand apart.
APART: dict[str, tuple[str, Callable[[str], str]]] = {
    "problem_digest": ("problem text", _digest),
    "solution_digest": ("solution text", _digest),
    "size": ("size", _whole),
    "dtype": ("dtype", _whole),
}
#: These are compared nevertheless, with the difference named.
NAMED: dict[str, tuple[str, Callable[[str], str]]] = {
    "torch": ("torch", _minor),
    "cuda": ("CUDA", _minor),
    "precision": ("precision", _whole),
    "settings_digest": ("settings", _whole),
    "harness_version": ("harness version", _whole),
    "schema_version": ("schema version", _whole),
}
#: The same between runs of one device, where more has to be equal.
NAMED_ON_ONE_DEVICE: dict[str, tuple[str, Callable[[str], str]]] = {
    "device_uuid": ("card", _digest),
    "driver": ("driver", _whole),
    "cpu_threads": ("CPU threads", _whole),
    "sm_clock_mhz": ("SM clock in MHz", _whole),
    "power_limit_w": ("power limit in W", _whole),
}


def _apart(sides: Sequence[Side]) -> list[Difference]:
    """Why rows that one would look for in one line stand in two."""
    found = []
    for column, (name, short) in APART.items():
        fields = ("problem", "solution") if column == "solution_digest" else ("problem",)
        groups: dict[str, dict[str, set[str]]] = {}
        for side in sides:
            for row in side.rows:
                if value := short(str(row[column] or "")):  # none where nothing was run
                    where = " / ".join(str(row[f]) for f in fields)
                    groups.setdefault(where, {}).setdefault(side.label, set()).add(value)
        for where, values in groups.items():
            if len({frozenset(one) for one in values.values()}) > 1:
                listed = {label: tuple(sorted(one)) for label, one in values.items()}
                found.append(Difference(name=name, values=listed, where=where, apart=True))
    return found


def _settings(sides: Sequence[Side]) -> list[Difference]:
    """How the sides were measured otherwise; also one side's rows among themselves."""
    found = _named(sides, NAMED)
    for device in dict.fromkeys(side.device_name for side in sides):
        runs = [side for side in sides if side.device_name == device]
        if len(runs) > 1:
            found += _named(runs, NAMED_ON_ONE_DEVICE)
    return found


def _named(
    sides: Sequence[Side], columns: Mapping[str, tuple[str, Callable[[str], str]]]
) -> list[Difference]:
    found = []
    for column, (name, short) in columns.items():
        values = {
            side.label: tuple(
                sorted({short(str(r[column])) for r in side.rows if r[column] not in (None, "")})
            )
            for side in sides
        }
        if len({value for one in values.values() for value in one}) > 1:
            found.append(Difference(name=name, values={k: v for k, v in values.items() if v}))
    return found


# --- means --------------------------------------------------------------------------------------


def _means(sides: Sequence[Side], entries: Iterable[Entry]) -> tuple[Mean, ...]:
    """Per size, dtype and mode; nothing where no row is credited on every side."""
    logs: dict[tuple[str, str, str], list[dict[str, float]]] = {}
    for entry in entries:
        for mode in MODES:
            ratios = {label: row[f"{mode}_speedup"] for label, row in entry.rows.items()}
            credited = {
                k: math.log(v) for k, v in ratios.items() if isinstance(v, float) and v > 0
            }
            if len(credited) == len(sides):
                key = (entry.key.size, entry.key.dtype, mode)
                logs.setdefault(key, []).append(credited)
    return tuple(
        Mean(
            size=size,
            dtype=dtype,
            mode=mode,
            count=len(rows),
            values={s.label: math.exp(math.fsum(r[s.label] for r in rows) / len(rows)) for s in sides},
        )
        for (size, dtype, mode), rows in sorted(logs.items(), key=lambda item: _mode_order(item[0]))
    )


def _mode_order(key: tuple[str, str, str]) -> tuple[str, str, int]:
    return key[0], key[1], MODES.index(key[2])
