"""The sides of a comparison, one column each, and how they differ.

Covers: what makes rows stand apart, what is compared nevertheless and only named. Not the
results themselves (comparison.py, changes.py).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.records import Value

PlainRow = Mapping[str, Value]  # as `results.plain` has it


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
class Difference:
    """What is not the same on all sides: label -> its values. `apart`: those rows stand apart.

    `where` is a problem, or a problem and a solution; empty: the sides as a whole.
    """

    name: str
    values: Mapping[str, tuple[str, ...]]
    where: str = ""
    apart: bool = False


def _digest(value: str) -> str:
    return value[:8]


def _minor(value: str) -> str:
    """`2.13` of `2.13.0+cu130`."""
    match = re.match(r"\d+\.\d+", value)
    return match[0] if match else value


def _whole(value: str) -> str:
    return value


SETTINGS = "settings"
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
    "settings_digest": (SETTINGS, _whole),
    "isolation": ("isolation of workers", _whole),
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


def differences(sides: Sequence[Side]) -> tuple[Difference, ...]:
    """Everything that matters, with the values of all sides."""
    return (*_apart(sides), *_settings(sides))


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
    found = [_in_words(one, sides) for one in _named(sides, NAMED)]
    for device in dict.fromkeys(side.device_name for side in sides):
        runs = [side for side in sides if side.device_name == device]
        if len(runs) > 1:
            found += _named(runs, NAMED_ON_ONE_DEVICE)
    return found


def _in_words(difference: Difference, sides: Sequence[Side]) -> Difference:
    """Settings as what was set, where rows tell it and it tells them apart; else their digests."""
    if difference.name != SETTINGS:
        return difference
    told = {
        str(row["settings_digest"]): str(row["settings"])
        for side in sides
        for row in side.rows
        if row["settings"]
    }
    digests = {digest for one in difference.values.values() for digest in one}
    if len({told.get(digest, digest) for digest in digests}) < len(digests):
        return difference  # of two versions: a default has changed
    values = {k: tuple(told.get(d, d) for d in one) for k, one in difference.values.items()}
    return dataclasses.replace(difference, values=values)


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
