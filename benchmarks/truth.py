"""The true ratio of two sides' times, found without the harness's clock: long batches.

A batch is many units in a row and no clock between them. As in a unit of the harness, the caches
are filled with other data, then each of n input sets is called once; the same batch with one null
kernel in place of the calls is subtracted, and what a null kernel takes in a row of them is added.
Warm batches of the same calls would not do: what is cold costs a call of two kernels 1 us more
(H200), which is 1.5 % of the ratio of 13 us to 8 us. Nor would batches of nothing but the filling
be subtracted rightly: the step from it to the first call is 1 us too.
"""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import dataclass, field
from typing import Any

import torch

from harness.config import Settings
from harness.judge.measure import plan
from harness.worker import meters
from harness.worker.calls import CallSet, Side
from harness.worker.timing import Timer

MAX_LAUNCHES = 1000  # that one gate is asked to hold back
LAUNCHES = {"forward": 2, "forward_backward": 8}  # of one call, about
BATCH_MS = 15.0
NULL = Side("null", meters.Null())
NULL_CALLS, NULL_UNITS = 400, 5


@dataclass(kw_only=True)
class Truth:
    """What batches of both sides gave so far: ratios, and milliseconds of the candidate's call."""

    timer: Timer
    mode: str
    ratios: list[float] = field(default_factory=list)
    each_ms: list[float] = field(default_factory=list)
    _units: int = 0
    _null_ms: float = 0.0

    def __post_init__(self) -> None:
        self._renew(1)
        sides = (self.timer.reference, self.timer.candidate)
        ms = {
            side.name: statistics.median(self._insist(side, self.timer.sets) for _ in range(10))
            for side in sides
        }
        calls = plan(ms, cuda=True, settings=Settings()).sets
        self._renew(calls)
        few, many = (
            statistics.median(
                self._insist(NULL, [self._null_calls] * count) for _ in range(NULL_UNITS)
            )
            for count in (1, NULL_CALLS + 1)
        )
        self._null_ms = (many - few) / NULL_CALLS
        held = MAX_LAUNCHES // (LAUNCHES[self.mode] * calls + 1)
        self._units = max(1, min(held, math.ceil(BATCH_MS / (min(ms.values()) * calls))))

    @property
    def ratio(self) -> float:
        """Reference over candidate: the median."""
        return statistics.median(self.ratios)

    @property
    def error(self) -> float:
        """Standard error of `ratio`, relative."""
        spread = statistics.stdev(self.ratios) if len(self.ratios) > 1 else math.inf
        return 1.25 * spread / math.sqrt(len(self.ratios)) / self.ratio

    def look(self) -> None:
        """Six batches more: A, null, B, B, null, A."""
        order = ("reference", "null", "candidate", "candidate", "null", "reference")
        while True:
            took = {"reference": 0.0, "candidate": 0.0, "null": 0.0}
            try:
                for name in order:
                    took[name] += self._batch_ms(name)
                break
            except meters.HostBound:  # more launches than one gate holds back
                self._units = max(1, self._units // 2)
        without = took["null"] - 2 * self._units * self._null_ms
        a, b = (took[name] - without for name in ("reference", "candidate"))
        self.ratios.append(a / b)
        self.each_ms.append(b / 2 / self._units / len(self.timer.sets))

    def _renew(self, calls: int) -> None:
        seeds = list(range(1, calls + 2))
        self.timer.renew(self.mode, seeds, seeds[1:], random.Random(1), mix_seed=1)

    @property
    def _null_calls(self) -> CallSet:
        return CallSet(inputs=[torch.zeros(1, device="cuda")], leaves={}, grad_seed=0)

    def _insist(self, side: Any, sets: list[CallSet]) -> float:
        mode = "forward" if side.name == NULL.name else self.mode
        return meters.insist(self.timer.meter, side, mode, sets).ms

    def _batch_ms(self, name: str) -> float:
        sides = {side.name: side for side in (self.timer.reference, self.timer.candidate, NULL)}
        unit = [self._null_calls] if name == "null" else self.timer.sets
        batch = _Batch(self.timer.meter, sides[name], every=len(unit))
        return self._insist(batch, unit * self._units)


class _Batch:
    """In place of a side: before every n-th call the caches are filled with other data."""

    def __init__(self, meter: Any, side: Side, *, every: int) -> None:
        self.name = side.name
        self._meter, self._side, self._every, self._made = meter, side, every, 0

    def prepare(self, mode: str, calls: CallSet) -> Any:
        self._made = 0
        return self._side.prepare(mode, calls)

    def run(self, mode: str, calls: CallSet, prepared: Any) -> None:
        if self._made % self._every == 0:
            self._meter.flush()
        self._made += 1
        self._side.run(mode, calls, prepared)
