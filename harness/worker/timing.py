"""Interleaved timing of two sides: warm-up, blocks, one epoch per order.

A block is A B B A or B A A B, in units of one side (`meters`). An epoch is K blocks on freshly
allocated inputs. The judge orders each epoch, decides n, K and when to stop, and audits what
is answered.
"""

from __future__ import annotations

import gc
import math
import random
import statistics
import time
from dataclasses import dataclass, field
from typing import Any

import torch

from harness.problem import Draw, Instance
from harness.trees import walk_tensors
from harness.worker.calls import CallSet, Side, call_set, plain
from harness.worker.meters import HostBound, Meter, Unit, WallMeter

KEEP_BYTES = 64 << 20  # outputs kept per epoch for the judge to choose from
RETURN_BYTES = 1 << 30  # up to this much memory goes back to the driver between epochs
WALL_CALLS = 20  # calls of the ungated wall-clock estimate, at most
WALL_MS = 1.0  # and about as long
_monotonic_ns = time.monotonic_ns


@dataclass(kw_only=True)
class Timer:
    """The two sides, and what is kept of the last epoch for the judge to look at."""

    instance: Instance
    reference: Side
    candidate: Side
    meter: Meter
    kept: list[list[Any]] = field(default_factory=list)
    sets: list[CallSet] = field(default_factory=list)

    def __post_init__(self) -> None:
        gc.collect()
        gc.freeze()  # what is loaded by now stays: a collection per epoch need not look at it

    def warm_up(self, mode: str, seed: int, *, calls: int, seconds: float) -> dict[str, Any]:
        """Run both sides until warm; the answer estimates ms per call of each.

        `ms` is by the meter, `wall_ms` by the wall clock over calls made one after another.
        `host_bound`: a side cannot be enqueued ahead, so the wall clock is the meter.
        """
        self.renew(mode, [seed], [seed + 1], random.Random(seed))
        sides = (self.reference, self.candidate)
        estimates = {side.name: self._warm_side(side, mode, calls, seconds) for side in sides}
        wall = {side.name: self._wall_ms(side, mode, estimates[side.name]) for side in sides}
        return {
            "ms": estimates,
            "wall_ms": wall,
            "host_bound": isinstance(self.meter, WallMeter),
        }

    def _wall_ms(self, side: Side, mode: str, ms: float) -> float:
        """Milliseconds of one call by the wall clock. Launches matter for short calls only: of
        long ones, whose outputs may be large, a single one tells."""
        count = max(1, min(WALL_CALLS, math.ceil(WALL_MS / max(ms, WALL_MS / WALL_CALLS))))
        return WallMeter().unit(side, mode, self.sets * count).ms / count

    def _warm_side(self, side: Side, mode: str, calls: int, seconds: float) -> float:
        """Median ms of the last calls, after `calls` calls, `seconds`, and five calls without
        new device memory."""
        samples: list[float] = []
        began, last_reserved, steady = time.monotonic(), -1, 0
        while len(samples) < 200 and (
            len(samples) < calls or steady < 5 or time.monotonic() - began < seconds
        ):
            samples.append(self._unit(side, mode).ms)
            reserved = torch.cuda.memory_reserved() if torch.cuda.is_initialized() else 0
            steady = steady + 1 if reserved == last_reserved else 0
            last_reserved = reserved
        return statistics.median(samples[-10:])

    def epoch(
        self,
        mode: str,
        *,
        seeds: list[int],
        grad_seeds: list[int],
        repeat: int,
        blocks: int,
        order_seed: int,
    ) -> dict[str, Any]:
        """One epoch: `blocks` blocks after one that is thrown away, on fresh allocations.

        A unit is `repeat` passes over one input set per seed.
        The answer: per block the ms of two units of each side and the time that it spans
        (monotonic clock, ns); for each side, how late the device came to rest after a unit (ms,
        the upper quartile over units); and of how many units outputs are kept.
        """
        shuffle = random.Random(order_seed)
        self.renew(mode, seeds, grad_seeds, shuffle)
        self.sets = self.sets * repeat
        self.kept.clear()
        result: list[dict[str, Any]] = []
        late: dict[str, list[float]] = {"reference": [], "candidate": []}
        gc.collect()
        gc.disable()
        try:
            for number in range(-1, blocks):
                block = self._block(mode, shuffle, late, keep=number >= 0)
                if number >= 0:
                    result.append(block)
        finally:
            gc.enable()
        quarter = {name: statistics.quantiles(ms, n=4)[2] for name, ms in late.items()}
        return {"blocks": result, "late_ms": quarter, "kept": len(self.kept)}

    def _block(
        self, mode: str, shuffle: random.Random, late: dict[str, list[float]], *, keep: bool
    ) -> dict[str, Any]:
        """One block; how late the device came to rest after each unit is added to `late`."""
        first, second = shuffle.sample((self.reference, self.candidate), 2)
        times: dict[str, list[float]] = {"reference": [], "candidate": []}
        began = _monotonic_ns()
        for side in (first, second, second, first):
            unit = self._unit(side, mode)
            times[side.name].append(unit.ms)
            late[side.name].append(unit.late_ms)
            if side is self.candidate and keep:
                self._keep(unit.outputs)
            unit.outputs = []
        return times | {"span_ns": [began, _monotonic_ns()]}

    def _unit(self, side: Side, mode: str) -> Unit:
        """One unit. A side that turns out to be host-bound puts both on the wall clock."""
        try:
            return self.meter.unit(side, mode, self.sets)
        except HostBound:
            self.meter = WallMeter()
            return self.meter.unit(side, mode, self.sets)

    def renew(
        self, mode: str, seeds: list[int], grad_seeds: list[int], shuffle: random.Random
    ) -> None:
        """Draw inputs anew, at other addresses: behind spacers of random size, in random order.

        Where much is in use, addresses matter little, and the driver would be busy wiping what
        it gets back while the next units are timed: then the allocator keeps its memory.
        """
        self.sets = []
        self.kept.clear()
        gc.collect()
        if self.instance.device.type == "cuda" and torch.cuda.memory_reserved() < RETURN_BYTES:
            torch.cuda.empty_cache()
        spacers = []
        drawn: dict[int, CallSet] = {}
        for i in shuffle.sample(range(len(seeds)), len(seeds)):
            size = shuffle.randrange(1, 1 << 22)
            spacers.append(torch.empty(size, dtype=torch.uint8, device=self.instance.device))
            drawn[i] = call_set(
                self.instance,
                Draw(seed=seeds[i]),
                grad=mode != "forward",
                grad_seed=grad_seeds[i],
            )
        self.sets = [drawn[i] for i in range(len(seeds))]
        for side in shuffle.sample((self.reference, self.candidate), 2):
            for calls in self.sets:
                side.run(mode, calls, side.prepare(mode, calls))

    def _keep(self, outputs: list[Any]) -> None:
        """Keep the outputs of this unit, and of those before it while they are small."""
        outputs = [plain(output) for output in outputs]
        if self.kept and _bytes(outputs) * (len(self.kept) + 1) > KEEP_BYTES:
            self.kept.clear()
        self.kept.append(outputs)


def _bytes(outputs: list[Any]) -> int:
    return sum(t.numel() * t.element_size() for _, t in walk_tensors(outputs, ""))
