"""Two runs on one device: what got slower or faster beyond its interval, what broke.

Speedups are compared, not times: the reference is measured along with each solution, so a
clock that differs from one run to the next cancels. A change counts where the 95 % intervals
lie apart by more than the noise of the device (its A/A test). A solution whose text has changed
is the same solution; a problem whose text has changed is not the same problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from harness.records import MODES, Status
from harness.report.sides import PlainRow, Side


class Kind(str, Enum):
    """What became of one mode of a solution, or of its verdict."""

    SLOWER = "slower"
    FASTER = "faster"
    BROKE = "broke"
    MENDED = "mended"
    SAME = "same"
    VERDICT = "other verdict"  # neither of the two is credited
    UNCERTAIN = "no interval"
    GONE = "gone"
    NEW = "new"

    @property
    def regression(self) -> bool:
        """True for what `--fail-on-regression` fails on."""
        return self in (Kind.SLOWER, Kind.BROKE)


@dataclass(frozen=True, kw_only=True)
class Change:
    """One mode of one solution, then and now; `mode` is empty where the verdict changed.

    `edited`: the solution's text is another one now.
    """

    kind: Kind
    before: PlainRow | None
    after: PlainRow | None
    mode: str = ""

    @property
    def row(self) -> PlainRow:
        """The newer of the rows that are there."""
        row = self.after or self.before
        assert row is not None
        return row

    @property
    def edited(self) -> bool:
        return bool(self.before and self.after) and self._differs("solution_digest")

    def _differs(self, column: str) -> bool:
        assert self.before
        assert self.after
        return self.before[column] != self.after[column]


@dataclass(frozen=True, kw_only=True)
class RunPair:
    """The newest run on a device and the one before it, row by row."""

    before: Side
    after: Side
    changes: tuple[Change, ...]

    @property
    def regressed(self) -> bool:
        return any(change.kind.regression for change in self.changes)

    @property
    def compared(self) -> int:
        """How many rows both runs have."""
        both = {_Same.of(c.row) for c in self.changes if c.before and c.after}
        return len(both)


class _Same(NamedTuple):
    problem: str
    problem_digest: str
    solution: str
    size: str
    dtype: str

    @classmethod
    def of(cls, row: PlainRow) -> _Same:
        return cls(*(str(row[name] or "") for name in cls._fields))


def run_pairs(sides: Sequence[Side]) -> tuple[RunPair, ...]:
    """For each device with several runs: the newest against the one before it, by time."""
    pairs = []
    for device in dict.fromkeys(side.device_name for side in sides):
        runs = sorted((s for s in sides if s.device_name == device), key=lambda s: s.newest)
        if len(runs) > 1:
            before, after = runs[-2:]
            changes = tuple(_changes(before.rows, after.rows))
            pairs.append(RunPair(before=before, after=after, changes=changes))
    return tuple(pairs)


def _changes(before: Iterable[PlainRow], after: Iterable[PlainRow]) -> Iterable[Change]:
    then: Mapping[_Same, PlainRow] = {_Same.of(row): row for row in before}
    now: Mapping[_Same, PlainRow] = {_Same.of(row): row for row in after}
    for same in sorted({*then, *now}):
        old, new = then.get(same), now.get(same)
        if old is None or new is None:
            yield Change(kind=Kind.NEW if old is None else Kind.GONE, before=old, after=new)
        else:
            yield from between(old, new)


def between(old: PlainRow, new: PlainRow) -> Iterable[Change]:
    """What became of one solution: of its verdict, then of each mode that both rows credit."""
    credits = _credit(old), _credit(new)
    if old["status"] != new["status"]:
        kind = Kind.BROKE if credits[0] > credits[1] else Kind.VERDICT
        kind = Kind.MENDED if credits[0] < credits[1] else kind
        yield Change(kind=kind, before=old, after=new)
    elif not any(credits):
        yield Change(kind=Kind.SAME, before=old, after=new)
    for mode in MODES:
        column = f"{mode}_speedup"
        if old[column] is not None and new[column] is not None:
            yield Change(kind=_moved(old, new, mode), before=old, after=new, mode=mode)


def _credit(row: PlainRow) -> int:
    """How much a verdict credits: everything, the forward, nothing."""
    return {Status.PASS.value: 2, Status.FORWARD_ONLY.value: 1}.get(str(row["status"]), 0)


def _moved(old: PlainRow, new: PlainRow, mode: str) -> Kind:
    """Whether the intervals lie apart by more than the noise of either run."""
    bounds = [row[f"{mode}_{end}"] for row in (old, new) for end in ("low", "high")]
    numbers = [bound for bound in bounds if isinstance(bound, float)]
    if len(numbers) < 4:
        return Kind.UNCERTAIN
    old_low, old_high, new_low, new_high = numbers
    noises = [row[f"{mode}_noise"] for row in (old, new)]
    noise = max((n for n in noises if isinstance(n, float)), default=0.0)
    if new_high < old_low * (1 - noise):
        return Kind.SLOWER
    return Kind.FASTER if new_low * (1 - noise) > old_high else Kind.SAME
