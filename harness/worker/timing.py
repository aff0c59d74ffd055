"""Interleaved timing of two sides, one epoch per order; calls on values of which nothing was met.

A block is A B B A or B A A B, in units of one side (`meters`). An epoch is K blocks on freshly
allocated inputs, which get new values before every unit (`input_sets`). The judge orders each
epoch, decides n, K and when to stop, and audits what is answered.
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

from harness.shared.binding import NoBackward
from harness.shared.trees import bytes_of, map_tensors
from harness.worker.calls import Side, plain
from harness.worker.meters import GateOpened, HostBound, Meter, Unit, WallMeter
from harness.worker.readings import Readings, room_bytes

KEEP_BYTES = 64 << 20  # outputs kept per epoch for the judge to choose from
WALL_CALLS = 20  # calls of the ungated wall-clock estimate, at most
WALL_MS = 1.0  # and about as long
#: Written once, calls of 0.5 to 1.3 ms over 16 MiB took 1.5 to 3 times as long on a CPU as in an
#: epoch, twice 1.1 to 1.4 times, and 1.0 to 1.2 times from three on.
SETTLED = 3
_monotonic_ns = time.monotonic_ns


@dataclass(kw_only=True)
class Timer(Readings):
    """The two sides, and what is kept of the last epoch for the judge to look at.

    `kept`: outputs by the number of their unit, which is that of the mixture of values that it ran
    on; `likewise`, for nobody, those of the reference. `singly`: no two calls can be under way at
    once.
    """

    reference: Side
    meter: Meter
    singly: bool = False
    kept: dict[int, list[Any]] = field(default_factory=dict)
    likewise: dict[int, list[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        gc.collect()
        gc.freeze()  # what is loaded by now stays: a collection per epoch need not look at it

    def warm_up(self, mode: str, seed: int, *, calls: int, seconds: float) -> dict[str, Any]:
        """Run both sides until warm; the answer estimates ms per call of each.

        `ms` is by the meter, `wall_ms` by the wall clock over calls made one after another.
        `host_bound`: a side cannot be enqueued ahead, so the wall clock is the meter.
        """
        self.renew(mode, [seed, seed + 1], [seed + 1], random.Random(seed), mix_seed=seed)
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
        long ones, whose outputs may be large, a single one tells; it has to where no two can be
        under way at once."""
        most = 1 if self.singly else WALL_CALLS
        count = max(1, min(most, math.ceil(WALL_MS / max(ms, WALL_MS / WALL_CALLS))))
        self.refresh()
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
        blocks: int,
        order_seed: int,
    ) -> dict[str, Any]:
        """One epoch: `blocks` blocks after a unit of each side that is thrown away, on fresh
        allocations.

        A unit is one pass over as many input sets as there are `grad_seeds`; their values are
        mixed of the draws of `seeds`, one more.
        The answer: per block the ms of two units of each side, the numbers of the candidate's, and
        the time that it spans (monotonic clock, ns); for each side, how late the device came to
        rest after a unit (ms, the upper quartile over units); the numbers of the units whose
        outputs are kept, which are the last ones; and whether the wall clock is the meter by now.
        """
        shuffle = random.Random(order_seed)
        self.renew(mode, seeds, grad_seeds, shuffle, mix_seed=order_seed)
        late: dict[str, list[float]] = {"reference": [], "candidate": []}
        gc.collect()
        gc.disable()
        try:
            for side in shuffle.sample((self.reference, self.candidate), 2):
                self._unit(side, mode)
            result = [self._block(mode, shuffle, late) for _ in range(blocks)]
        finally:
            gc.enable()
        quarter = {name: statistics.quantiles(ms, n=4)[2] for name, ms in late.items()}
        bound = isinstance(self.meter, WallMeter)
        return {
            "blocks": result,
            "late_ms": quarter,
            "kept": list(self.kept),
            "host_bound": bound,
        }

    def _block(
        self, mode: str, shuffle: random.Random, late: dict[str, list[float]]
    ) -> dict[str, Any]:
        """One block; how late the device came to rest after each unit is added to `late`."""
        first, second = shuffle.sample((self.reference, self.candidate), 2)
        times: dict[str, list[float]] = {"reference": [], "candidate": []}
        numbers: list[int] = []
        began = _monotonic_ns()
        for side in (first, second, second, first):
            unit = self._unit(side, mode)
            times[side.name].append(unit.ms)
            late[side.name].append(unit.late_ms)
            if side is self.candidate:
                numbers.append(self.number)
            self._keep(side, unit.outputs)
            unit.outputs = []
        return times | {"units": numbers, "span_ns": [began, _monotonic_ns()]}

    def _unit(self, side: Side, mode: str) -> Unit:
        """One unit, on fresh values at each attempt. A side that turns out to be host-bound puts
        both on the wall clock."""
        while True:
            self.refresh()
            try:
                return self.meter.unit(side, mode, self.sets)
            except GateOpened:
                continue
            except HostBound:
                self.meter = WallMeter()

    def unseen(self, mode: str, *, seeds: list[int], mix_seed: int) -> dict[str, float]:
        """One unit of each side where the last ones were, on draws of `seeds`, one for each set, of
        which the candidate, that is the first, has met nothing yet: in units of an epoch rows come
        again, times other factors. Its outputs are kept as those of unit 0.

        Nothing of the candidate's is called between the draws and its unit, not to warm it up
        either: what it could look at then it would not meet for the first time. What was just drawn
        fills the caches, so each side gets that, and values are written `SETTLED` times, until
        where they come from and go to is about as near as in an epoch. What a call draws itself
        follows in the first one from the seed of its values, as buffers are then what they were. A
        forward in training is followed, when it has been timed, by a backward.

        The answer: ms by side; of none where the meter wants a unit to be done again, for then it
        would not be the first.
        """
        self.kept.clear()
        self.likewise.clear()
        took_ms = {}
        for side in (self.candidate, self.reference):
            self.draw_whole(seeds)
            for _ in range(SETTLED):
                self.hold_whole(mix_seed)
            torch.manual_seed(seeds[0])
            side.steps = mode != "forward_train"  # of weights: they are saved for the backward
            try:
                unit = self.meter.unit(side, mode, self.sets)
            except (GateOpened, HostBound):
                return {}
            finally:
                side.steps = True
            took_ms[side.name] = unit.ms
            if side is self.candidate:
                outputs, unit.outputs = self._with_inputs(self._gone_back(mode, unit.outputs)), []
                if bytes_of(outputs) <= room_bytes(self.instance.device):
                    # At once: whoever finishes them later has not finished them.
                    outputs = [map_tensors(torch.clone, plain(one)) for one in outputs]
                self._keep(side, outputs)
        return took_ms

    def renew(
        self,
        mode: str,
        seeds: list[int],
        grad_seeds: list[int],
        shuffle: random.Random,
        *,
        mix_seed: int,
    ) -> None:
        """Draw inputs anew, at other addresses, and call each side once on all of them."""
        self.kept.clear()
        self.likewise.clear()
        self.draw(mode, seeds, grad_seeds, shuffle, mix_seed=mix_seed)
        for side in shuffle.sample((self.reference, self.candidate), 2):
            for calls in self.sets:
                side.run(mode, calls, side.prepare(mode, calls))

    def _keep(self, side: Side, outputs: list[Any]) -> None:
        """Keep the candidate's outputs of this unit, and of those before it while they are small.

        On a CPU the reference's too: the unit after one that lets go of its outputs gets memory
        that is in the caches. In A/A tests at 0.01 ms a call the candidate was 2.6 to 3.7 % faster,
        since its units come after the reference's more often than after its own.
        """
        outputs = self.apart(outputs, side.buffers)
        size, kept = bytes_of(outputs), self.kept
        if side is self.reference:
            if self.instance.device.type != "cpu" or size > KEEP_BYTES:
                return
            kept = self.likewise
        if kept and size * (len(kept) + 1) > KEEP_BYTES:
            kept.clear()
        kept[self.number] = outputs

    def _gone_back(self, mode: str, outputs: list[Any]) -> list[Any]:
        """What a unit returned; of a forward in training with gradients, as far as there are any:
        it must allow for a backward, or it has left out a part of its work."""
        if mode != "forward_train":
            return outputs
        pairs = []
        for calls, output in zip(self.sets, outputs, strict=True):
            grads: dict[str, Any] = {}
            try:
                grads = self.candidate.backward(calls, output)
            except torch.OutOfMemoryError:
                raise
            except (NoBackward, RuntimeError):  # the latter where calls change what others saved
                pass
            pairs.append((output, grads))
        return pairs
