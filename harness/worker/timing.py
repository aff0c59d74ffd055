"""Interleaved timing of two sides: gate, flush, blocks, one epoch per order.

A unit is one timed sample of one side: n calls over n distinct input sets between one pair of
clock readings. A block is A B B A or B A A B. An epoch is K blocks on freshly allocated inputs.
The judge orders each epoch, decides n, K and when to stop, and audits what is answered.

On CUDA a unit runs behind a gate (a kernel that sleeps) so that the host has enqueued all of
it before the clock starts; otherwise the host's launch time would be added to both sides. It
is valid only if the gate was still closed when the last call had been enqueued.

Clock functions are bound here when the module is imported, before any solution is.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from harness.problem import Draw, Instance, walk_tensors
from harness.worker.calls import CallSet, Side, call_set, plain

MAX_GATE_S = 20e-3
GATE_MARGIN_S = 50e-6
ESCAPE_SLACK_S = 20e-6  # a device-wide wait this much longer than the end event means that
ESCAPE_SHARE = 0.02  # work went on elsewhere (on an H200 it takes 14 us, and 17 in 9 of 10)
KEEP_BYTES = 64 << 20  # outputs kept per epoch for the judge to choose from
_clock = time.perf_counter_ns
_Event: Any = torch.cuda.Event


class HostBound(Exception):
    """A side synchronises, or needs the host for longer than the longest gate."""


@dataclass(kw_only=True)
class Unit:
    """What one timed sample gave. `escaped`: device work outlived the end event."""

    ms_per_call: float
    outputs: list[Any]
    escaped: bool = False


class Meter(Protocol):
    """How a unit is timed on one kind of device."""

    def unit(self, side: Side, mode: str, sets: list[CallSet]) -> Unit:
        """Time `side` over `sets`, one call each."""
        ...


class CpuMeter:
    """`perf_counter_ns` around n calls. The caches are not flushed: inputs of the same sets
    precede one another, as they do for the other side."""

    def unit(self, side: Side, mode: str, sets: list[CallSet]) -> Unit:
        prepared = [side.prepare(mode, s) for s in sets]
        start = _clock()
        outputs = [side.run(mode, s, p) for s, p in zip(sets, prepared, strict=True)]
        return Unit(ms_per_call=(_clock() - start) / 1e6 / len(sets), outputs=outputs)


class CudaMeter:
    """CUDA events behind a gate, with a cold cache; see the module's docstring."""

    def __init__(self, device: torch.device) -> None:
        properties = torch.cuda.get_device_properties(device)
        size = 2 * max(properties.L2_cache_size, 32 << 20)  # twice the L2, read: TIMING.md, flush
        self._flush = torch.randn(size // 4, device=device)
        self._sink = torch.empty((), device=device)
        self._events = [_Event(enable_timing=True) for _ in range(3)]
        self._gate_s = 200e-6
        self._cycles_per_s = self._measure_sleep()

    def unit(self, side: Side, mode: str, sets: list[CallSet]) -> Unit:
        """Time `side`, doubling the gate until it holds. Raises `HostBound` where it cannot."""
        while True:
            unit, enqueue_s = self._attempt(side, mode, sets)
            if unit is not None:
                return unit
            if self._gate_s >= MAX_GATE_S:
                raise HostBound(f"{side.name} needs {enqueue_s * 1e3:.1f} ms of the host")
            wanted = max(2 * self._gate_s, 1.5 * enqueue_s + GATE_MARGIN_S)
            self._gate_s = min(MAX_GATE_S, wanted)

    def _attempt(self, side: Side, mode: str, sets: list[CallSet]) -> tuple[Unit | None, float]:
        gate, start, end = self._events
        torch.cuda.synchronize()
        _reset_persisting_l2()
        began = _clock()
        torch.cuda._sleep(int(self._gate_s * self._cycles_per_s))
        gate.record()
        prepared = [side.prepare(mode, s) for s in sets]
        torch.amax(self._flush, dim=0, out=self._sink)
        start.record()
        outputs = [side.run(mode, s, p) for s, p in zip(sets, prepared, strict=True)]
        end.record()
        held = not gate.query()
        enqueue_s = (_clock() - began) / 1e9
        end.synchronize()
        ended = _clock()
        torch.cuda.synchronize()
        escaped_s = (_clock() - ended) / 1e9
        if not held:
            return None, enqueue_s
        ms = start.elapsed_time(end)
        escaped = escaped_s > ESCAPE_SLACK_S + ESCAPE_SHARE * ms / 1e3
        return Unit(ms_per_call=ms / len(sets), outputs=outputs, escaped=escaped), enqueue_s

    def _measure_sleep(self) -> float:
        """Cycles of `_sleep` per second, from the longest of a few sleeps."""
        start, end, _ = self._events
        cycles = 2_000_000
        rates: list[float] = []
        for _ in range(3):
            start.record()
            torch.cuda._sleep(cycles)
            end.record()
            end.synchronize()
            rates.append(cycles / (start.elapsed_time(end) / 1e3))
        return max(rates)


class WallMeter:
    """Wall clock around calls and a device-wide wait: for sides that are host-bound."""

    def unit(self, side: Side, mode: str, sets: list[CallSet]) -> Unit:
        prepared = [side.prepare(mode, s) for s in sets]
        torch.cuda.synchronize()
        start = _clock()
        outputs = [side.run(mode, s, p) for s, p in zip(sets, prepared, strict=True)]
        torch.cuda.synchronize()
        return Unit(ms_per_call=(_clock() - start) / 1e6 / len(sets), outputs=outputs)


@functools.cache
def _cuda_driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _reset_persisting_l2() -> None:
    _cuda_driver().cuCtxResetPersistingL2Cache()


@dataclass(kw_only=True)
class Timer:
    """The two sides, and what is kept of the last epoch for the judge to look at."""

    instance: Instance
    reference: Side
    candidate: Side
    meter: Meter
    kept: list[list[Any]] = field(default_factory=list)
    sets: list[CallSet] = field(default_factory=list)

    def warm_up(self, mode: str, seed: int, *, calls: int, seconds: float) -> dict[str, Any]:
        """Run both sides until warm; the answer estimates ms per call of each.

        Warm means: at least `calls` calls and `seconds` per side, and no new device memory in
        the last five.
        """
        self._renew(mode, [seed], [seed + 1], random.Random(seed))
        estimates = {}
        for side in (self.reference, self.candidate):
            samples: list[float] = []
            began, last_reserved, steady = time.monotonic(), -1, 0
            while len(samples) < 200 and (
                len(samples) < calls or steady < 5 or time.monotonic() - began < seconds
            ):
                unit, host_bound = self._unit(side, mode)
                samples.append(unit.ms_per_call)
                reserved = torch.cuda.memory_reserved() if torch.cuda.is_initialized() else 0
                steady = steady + 1 if reserved == last_reserved else 0
                last_reserved = reserved
                if host_bound:  # start again: the other side is timed by the wall clock as well
                    self.meter = WallMeter()
            estimates[side.name] = statistics.median(samples[-10:])
        return {"ms": estimates, "host_bound": isinstance(self.meter, WallMeter)}

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
        The answer: per block the ms per call of reference and candidate (two each), the
        share of the candidate's units whose work on the device outlived the clock, and of how
        many units outputs are kept.
        """
        shuffle = random.Random(order_seed)
        self._renew(mode, seeds, grad_seeds, shuffle)
        self.sets = self.sets * repeat
        self.kept.clear()
        result: list[dict[str, Any]] = []
        escaped = 0
        gc.collect()
        gc.disable()
        try:
            for number in range(-1, blocks):
                first, second = shuffle.sample((self.reference, self.candidate), 2)
                times: dict[str, list[float]] = {"reference": [], "candidate": []}
                for side in (first, second, second, first):
                    unit, _ = self._unit(side, mode)
                    times[side.name].append(unit.ms_per_call)
                    if side is self.candidate and number >= 0:
                        escaped += unit.escaped
                        self._keep(unit.outputs)
                    unit.outputs = []
                if number >= 0:
                    result.append(times)
        finally:
            gc.enable()
        share = escaped / (2 * blocks)
        return {"blocks": result, "escaped_share": share, "kept": len(self.kept)}

    def _unit(self, side: Side, mode: str) -> tuple[Unit, bool]:
        """One unit, and whether it turned out that the wall clock must be used."""
        try:
            return self.meter.unit(side, mode, self.sets), False
        except HostBound:
            return WallMeter().unit(side, mode, self.sets), True

    def _renew(
        self, mode: str, seeds: list[int], grad_seeds: list[int], shuffle: random.Random
    ) -> None:
        """Draw inputs anew, at other addresses: behind spacers of random size, in random order."""
        self.sets = []
        self.kept.clear()
        gc.collect()
        if self.instance.device.type == "cuda":
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


METERS: dict[str, Callable[[torch.device], Meter]] = {
    "cpu": lambda device: CpuMeter(),
    "cuda": CudaMeter,
}
