"""What is still to be evaluated, and who is at it: no solution is lost or counted twice.

Slots (places with a judge) take chunks of a problem's solutions. Opening a problem means
measuring its reference, so a slot stays with its problem, and one more joins only where that
ends sooner. Chunks get smaller towards the end, so that all slots finish together.

When a slot loses its judge, the solution that was being evaluated is tried again, alone and
elsewhere if there is an elsewhere, `RETRIES` times at most; the others of its chunk go back
untouched. An answer counts only from who holds the solution now.

Thread-safe; knows nothing of processes, devices or files.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

RETRIES = 2  # times that a solution is tried again whose judge was lost
MAX_CHUNK = 16  # solutions a unit; builds run ahead within one
OPENING = 2.0  # what opening a problem costs, in evaluations: its baseline against a solution


@dataclass(eq=False, kw_only=True)
class Item:
    """A solution of a problem, by their numbers in the request."""

    problem: int
    solution: int
    losses: list[str] = field(default_factory=list)
    """Of the judges lost while they evaluated it: how."""
    lost_by: set[int] = field(default_factory=set)
    """The slots that it was lost by."""


@dataclass(eq=False, kw_only=True)
class Unit:
    """A chunk of one problem's items, held by a slot until each is known or it is lost."""

    slot: int
    problem: int
    items: list[Item]


class Backlog:
    """Items to do, handed out in units."""

    def __init__(self, counts: Sequence[int], slots: int = 1) -> None:
        """`counts`: of each problem, how many solutions. `slots`: how many will come."""
        self._expected = slots
        self._waiting: dict[int, list[Item]] = {
            problem: [Item(problem=problem, solution=n) for n in range(count)]
            for problem, count in enumerate(counts)
        }
        self._held: dict[int, Unit] = {}
        self._last: dict[int, int] = {}  # slot -> the problem that it has open
        self._slots: set[int] = set()
        self._changed = threading.Condition()
        self._stopped = False

    # --- slots ----------------------------------------------------------------------------------

    def enter(self, slot: int) -> None:
        """A slot has a judge and will take units."""
        with self._changed:
            self._slots.add(slot)
            self._last.pop(slot, None)
            self._changed.notify_all()

    def leave(self, slot: int) -> None:
        """It has none for now: what only it must not try again may come back to it."""
        with self._changed:
            self._slots.discard(slot)
            self._last.pop(slot, None)
            self._changed.notify_all()

    def stop(self) -> None:
        """Nothing more is handed out."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    @property
    def finished(self) -> bool:
        """Whether nothing waits and nobody holds anything, or it was stopped."""
        with self._changed:
            return self._over()

    def _over(self) -> bool:
        left = any(self._waiting.values()) or any(unit.items for unit in self._held.values())
        return self._stopped or not left

    # --- units ----------------------------------------------------------------------------------

    def take(self, slot: int) -> Unit | None:
        """The next unit of a slot; waits while others may give some back. None: all is known."""
        with self._changed:
            held = self._held.pop(slot, None)
            assert held is None or not held.items, "a unit is finished, lost or returned"
            self._changed.notify_all()
            while not self._over():
                if items := self._chunk(slot):
                    unit = Unit(slot=slot, problem=items[0].problem, items=items)
                    self._held[slot], self._last[slot] = unit, unit.problem
                    return unit
                self._changed.wait()
            self._changed.notify_all()
            return None

    def known(self, unit: Unit, solution: int) -> bool:
        """A row came. Whether it counts: not where the unit was lost, or it was known before."""
        with self._changed:
            item = next((i for i in unit.items if i.solution == solution), None)
            if self._held.get(unit.slot) is not unit or item is None:
                return False
            unit.items.remove(item)
            return True

    def lost(self, unit: Unit, reason: str, solution: int | None = None) -> Item | None:
        """The unit's judge was lost while it evaluated `solution` (None: before any).

        The item that is now given up for good, if there is one.
        """
        with self._changed:
            if self._held.get(unit.slot) is not unit:
                return None
            del self._held[unit.slot]
            back, unit.items = unit.items, []
            blamed = next((i for i in back if i.solution == solution), None)
            if solution is None and back:
                blamed = back[0]
            given_up = None
            if blamed is not None:
                blamed.losses.append(reason)
                blamed.lost_by.add(unit.slot)
                if len(blamed.losses) > RETRIES:
                    back.remove(blamed)
                    given_up = blamed
            self._waiting[unit.problem][:0] = back
            self._changed.notify_all()
            return given_up

    def returned(self, unit: Unit) -> None:
        """The slot cannot do it, which is nobody's fault: its items go back as they were."""
        with self._changed:
            if self._held.pop(unit.slot, None) is unit:
                self._waiting[unit.problem][:0] = unit.items
                unit.items = []
            self._changed.notify_all()

    # --- which ----------------------------------------------------------------------------------

    def _chunk(self, slot: int) -> list[Item]:
        fit = {p: fitting for p in self._waiting if (fitting := self._fitting(p, slot))}
        problem = self._choose(slot, fit)
        if problem is None:
            return []
        items = fit[problem]
        if items[0].losses:  # alone: it takes nobody with it
            chosen = items[:1]
        else:
            fresh = list(itertools.takewhile(lambda item: not item.losses, items))
            chosen = fresh[: self._size(problem, len(fresh), len(fit))]
        for item in chosen:
            self._waiting[problem].remove(item)
        return chosen

    def _fitting(self, problem: int, slot: int) -> list[Item]:
        """What waits of a problem and was not lost by this slot while there are others."""
        return [
            i for i in self._waiting[problem] if slot not in i.lost_by or self._slots <= i.lost_by
        ]

    def _choose(self, slot: int, fit: dict[int, list[Item]]) -> int | None:
        last = self._last.get(slot)
        if last in fit:
            return last
        others = [p for s, p in self._last.items() if s in self._slots and s != slot]
        best: tuple[float, int] | None = None
        for problem, items in fit.items():
            there = others.count(problem)
            again = any(item.losses for item in items)
            if there and not again and len(items) <= OPENING * there:
                continue  # those who are there are done with it sooner
            gain = (len(items) / (there + 1), -problem)
            best = max(best, gain) if best else gain
        return -int(best[1]) if best else None

    def _size(self, problem: int, count: int, problems: int) -> int:
        """Half of a slot's share: what is left shrinks, and so do chunks."""
        there = sum(1 for s, p in self._last.items() if p == problem and s in self._slots)
        slots = max(there, math.ceil(max(len(self._slots), self._expected) / problems))
        return max(1, min(MAX_CHUNK, math.ceil(count / (2 * slots))))
