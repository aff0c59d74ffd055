"""The true ratio of two sides' times, found without the harness's clock: long batches.

Both sides call the same kernels on the same data; one of them only waits for more cycles. So their
difference is the same whether caches are cold or warm, and is found in rows of calls with no clock
between them. What a call takes in all does depend on the caches; it is found in batches: as in a
unit of the harness, the caches are filled with other data, then each of n input sets is called
once, and what the calls return is kept until all have been made; the same batch with one null
kernel in place of the calls is subtracted, and what a null kernel takes in a row of them is added.
Inputs lie elsewhere each time.

How long the filling takes depends a little on what precedes it, so a batch tells a unit's calls to
half a microsecond, which is a part of `error`. A ratio of two such batches was up to 0.4 % off,
differently in each process (H200).
"""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import dataclass, field
from typing import Any

import torch

from harness.config import Settings
from harness.judge.timing.epochs import plan
from harness.worker import meters
from harness.worker.calls import CallSet, Side
from harness.worker.timing import Timer

MAX_LAUNCHES = 1000  # that one gate is asked to hold back
LAUNCHES = {"forward": 2, "forward_backward": 8}  # of one call, about
BATCH_MS = 15.0
BATCH_ERROR_MS = 0.25e-3  # a batch's standard error for a unit's calls, see above
NULL = Side("null", meters.Null())
NULL_CALLS, NULL_UNITS = 400, 5


@dataclass(kw_only=True)
class Truth:
    """What rows and batches gave so far: by how many milliseconds a call of the reference takes
    longer, and how many one of the candidate's takes."""

    timer: Timer
    mode: str
    longer_ms: list[float] = field(default_factory=list)
    each_ms: list[float] = field(default_factory=list)
    _calls: int = 1
    _units: int = 0
    _null_ms: float = 0.0

    def __post_init__(self) -> None:
        self._renew()
        sides = (self.timer.reference, self.timer.candidate)
        ms = {
            side.name: statistics.median(self._insist(side, self.timer.sets) for _ in range(10))
            for side in sides
        }
        self._calls = plan(ms, cuda=True, settings=Settings()).sets
        self._renew()
        few, many = (
            statistics.median(
                self._insist(NULL, [self._null_calls] * count) for _ in range(NULL_UNITS)
            )
            for count in (1, NULL_CALLS + 1)
        )
        self._null_ms = (many - few) / NULL_CALLS
        held = MAX_LAUNCHES // (LAUNCHES[self.mode] * self._calls + 1)
        self._units = max(1, min(held, math.ceil(BATCH_MS / (min(ms.values()) * self._calls))))

    @property
    def ratio(self) -> float:
        """Reference over candidate."""
        return 1 + statistics.median(self.longer_ms) / statistics.median(self.each_ms)

    @property
    def error(self) -> float:
        """Standard error of `ratio`, relative."""
        each_ms, share = statistics.median(self.each_ms), self.ratio - 1
        doubt_ms = math.hypot(_error(self.each_ms), BATCH_ERROR_MS / self._calls)
        return math.hypot(_error(self.longer_ms), share * doubt_ms) / each_ms / self.ratio

    def look(self) -> None:
        """Six rows and batches more."""
        self._renew()
        while True:
            took = {"reference": 0.0, "candidate": 0.0, "batch": 0.0, "null": 0.0}
            try:
                for name in ("batch", "reference", "candidate", "candidate", "reference", "null"):
                    took[name] += self._take_ms(name)
                break
            except meters.HostBound:  # more launches than one gate holds back
                self._units = max(1, self._units // 2)
        count = self._units * len(self.timer.sets)
        self.longer_ms.append((took["reference"] - took["candidate"]) / 2 / count)
        without = took["null"] - self._units * self._null_ms
        self.each_ms.append((took["batch"] - without) / count)

    def _renew(self) -> None:
        seeds = list(range(1, self._calls + 2))
        self.timer.renew(self.mode, seeds, seeds[1:], random.Random(), mix_seed=1)

    @property
    def _null_calls(self) -> CallSet:
        zero = torch.zeros(1, device=self.timer.instance.device)
        return CallSet(inputs=[zero], leaves={}, grad_seed=0)

    def _insist(self, side: Any, sets: list[CallSet]) -> float:
        mode = "forward" if side.name == NULL.name else self.mode
        return meters.insist(self.timer.meter, side, mode, sets).ms

    def _take_ms(self, name: str) -> float:
        """A row of calls of either side, or a batch of the candidate's calls or of null kernels."""
        sides = {"reference": self.timer.reference, "null": NULL}
        side: Any = sides.get(name, self.timer.candidate)
        unit = [self._null_calls] if name == "null" else self.timer.sets
        if name in ("batch", "null"):
            side = _Batch(self.timer.meter, side, every=len(unit))
        return self._insist(side, unit * self._units)


def _error(samples: list[float]) -> float:
    """Standard error of the median of `samples`."""
    spread = statistics.stdev(samples) if len(samples) > 1 else math.inf
    return 1.25 * spread / math.sqrt(len(samples))


class _Batch:
    """In place of a side: before every n-th call the caches are filled with other data. What the
    calls since then returned is kept, as a unit keeps it: each writes to memory of its own."""

    def __init__(self, meter: Any, side: Side, *, every: int) -> None:
        self.name = side.name
        self._meter, self._side, self._every, self._made = meter, side, every, 0
        self._kept: list[Any] = []

    def prepare(self, mode: str, calls: CallSet) -> Any:
        self._made = 0
        return self._side.prepare(mode, calls)

    def run(self, mode: str, calls: CallSet, prepared: Any) -> None:
        if self._made % self._every == 0:
            self._kept.clear()
            self._meter.flush()
        self._made += 1
        self._kept.append(self._side.run(mode, calls, prepared))
