"""How one unit is timed: CUDA events behind a gate, the CPU's clock, or the wall clock.

A unit is one timed sample of one side: n calls over n distinct input sets between one pair of
clock readings.

On CUDA a unit runs behind a gate (a kernel that sleeps) so that the host has enqueued all of
it before the clock starts; otherwise the host's launch time would be added to both sides. It
is valid only if the gate was still closed when the last call had been enqueued.

Clock functions are bound here when the module is imported, before any solution is.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from harness.worker.calls import CallSet, Side

MAX_GATE_S = 20e-3
FIRST_GATE_S = 200e-6
GATE_MARGIN_S = 50e-6
GATE_UNITS = 8  # a gate is as long as the slowest of so many units' enqueueing asks for
OVERHEAD_UNITS = 25
OVERHEAD_CALLS = 17
_clock = time.perf_counter_ns
_Event: Any = torch.cuda.Event


class HostBound(Exception):
    """A side synchronises, or needs the host for longer than the longest gate."""


class GateOpened(Exception):
    """The gate opened before all was enqueued; the next one stays closed for longer."""


@dataclass(kw_only=True)
class Unit:
    """What one timed sample gave: `ms` between the clock readings, for all of its calls.

    `late_ms`: how much longer a wait for the whole device took than the one for the end event:
    some microseconds, or as long as work went on elsewhere.
    """

    ms: float
    outputs: list[Any]
    late_ms: float = 0.0


class Meter(Protocol):
    """How a unit is timed on one kind of device."""

    def unit(self, side: Side, mode: str, sets: list[CallSet]) -> Unit:
        """Time `side` over `sets`, one call each."""
        ...


def insist(meter: Meter, side: Side, mode: str, sets: list[CallSet]) -> Unit:
    """A unit, on the same values at each attempt: for a side that keeps nothing."""
    while True:
        with contextlib.suppress(GateOpened):
            return meter.unit(side, mode, sets)


class CpuMeter:
    """`perf_counter_ns` around n calls. The caches are not flushed: each call finds in them what
    the one before it left, on both sides alike."""

    def unit(self, side: Side, mode: str, sets: list[CallSet]) -> Unit:
        prepared = [side.prepare(mode, s) for s in sets]
        start = _clock()
        outputs = [side.run(mode, s, p) for s, p in zip(sets, prepared, strict=True)]
        return Unit(ms=(_clock() - start) / 1e6, outputs=outputs)


class Gate:
    """How long a unit is held back: `seconds`, by how long the host took to enqueue the last ones.

    The first calls of a side take the host long; those after it need not wait as long.
    """

    def __init__(self) -> None:
        self.seconds = FIRST_GATE_S
        self._recent_s: deque[float] = deque(maxlen=GATE_UNITS)

    def settle(self, enqueue_s: float, *, held: bool, who: str) -> None:
        """After a unit that took `enqueue_s` to enqueue. Raises `GateOpened` where it was not held
        until then and has to be done again, `HostBound` where no gate is long enough."""
        self._recent_s.append(enqueue_s)
        wanted = min(MAX_GATE_S, 1.5 * max(self._recent_s) + GATE_MARGIN_S)
        if held:
            if len(self._recent_s) == GATE_UNITS:
                self.seconds = min(self.seconds, wanted)
            return
        if self.seconds >= MAX_GATE_S:
            raise HostBound(f"{who} needs {enqueue_s * 1e3:.1f} ms of the host")
        self.seconds = min(MAX_GATE_S, max(2 * self.seconds, wanted))
        raise GateOpened


class CudaMeter:
    """CUDA events behind a gate, with a cold cache; see the module's docstring."""

    def __init__(self, device: torch.device) -> None:
        properties = torch.cuda.get_device_properties(device)
        size = 2 * max(properties.L2_cache_size, 32 << 20)  # twice the L2, read: TIMING.md, flush
        self._other = torch.randn(size // 4, device=device)
        self._sink = torch.empty((), device=device)
        self._events = [_Event(enable_timing=True) for _ in range(3)]
        self._gate = Gate()
        self._cycles_per_s = self._measure_sleep()

    def unit(self, side: Side, mode: str, sets: list[CallSet]) -> Unit:
        """Time `side` once. Raises `GateOpened` where that has to be done again, on other values,
        and `HostBound` where it cannot be done."""
        unit, enqueue_s = self._attempt(side, mode, sets)
        self._gate.settle(enqueue_s, held=unit is not None, who=side.name)
        assert unit is not None
        return unit

    def _attempt(self, side: Side, mode: str, sets: list[CallSet]) -> tuple[Unit | None, float]:
        gate, start, end = self._events
        torch.cuda.synchronize()
        _reset_persisting_l2()
        began = _clock()
        torch.cuda._sleep(int(self._gate.seconds * self._cycles_per_s))
        gate.record()
        prepared = [side.prepare(mode, s) for s in sets]
        self.flush()
        start.record()
        outputs = [side.run(mode, s, p) for s, p in zip(sets, prepared, strict=True)]
        end.record()
        held = not gate.query()
        enqueue_s = (_clock() - began) / 1e9
        end.synchronize()
        ended = _clock()
        torch.cuda.synchronize()
        late_ms = (_clock() - ended) / 1e6
        if not held:
            return None, enqueue_s
        ms = start.elapsed_time(end)
        return Unit(ms=ms, outputs=outputs, late_ms=late_ms), enqueue_s

    def flush(self) -> None:
        """Fill the caches with other data."""
        torch.amax(self._other, dim=0, out=self._sink)

    def overhead_ms(self) -> float:
        """What a unit holds beside its calls: the time of one null kernel, less the time that each
        more of them adds. With the caches full of other data, as a unit finds them: its first
        kernel is fetched anew (0.7 us of 2 on an H200), which is not a matter of how many calls
        follow."""
        null = Side("null", Null())
        calls = CallSet(inputs=[torch.zeros(1, device="cuda")], leaves={}, grad_seed=0)
        few, many = (
            statistics.median(
                insist(self, null, "forward", [calls] * count).ms for _ in range(OVERHEAD_UNITS)
            )
            for count in (1, OVERHEAD_CALLS)
        )
        return max(0.0, few - (many - few) / (OVERHEAD_CALLS - 1))

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


class Null(torch.nn.Module):
    """The least that a call can do on the device: one kernel over one element."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.add_(1)


class WallMeter:
    """Wall clock around calls and a device-wide wait: for sides that are host-bound."""

    def unit(self, side: Side, mode: str, sets: list[CallSet]) -> Unit:
        prepared = [side.prepare(mode, s) for s in sets]
        _synchronize()
        start = _clock()
        outputs = [side.run(mode, s, p) for s, p in zip(sets, prepared, strict=True)]
        _synchronize()
        return Unit(ms=(_clock() - start) / 1e6, outputs=outputs)


def _synchronize() -> None:
    """Wait for the device, where there is one in use."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


@functools.cache
def _cuda_driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _reset_persisting_l2() -> None:
    _cuda_driver().cuCtxResetPersistingL2Cache()


METERS: dict[str, Callable[[torch.device], Meter]] = {
    "cpu": lambda device: CpuMeter(),
    "cuda": CudaMeter,
    "wall": lambda device: WallMeter(),
}
