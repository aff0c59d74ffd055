"""Timed calls by the judge's own clock, and the inputs that timed calls run on.

The judge names the inputs with its order, and the places of the samples when all calls have been
made; its clock stops when it has a sample of every call's output. So the work can neither be done
before, nor be put off, nor be done in part. What else a reading holds (the refill,
the sample) it holds for the reference too, where no solution is loaded. Where the reference leaves
its inputs alone and takes mixtures, only a sixteenth of each is renewed, so that most of a reading
is the call even where that is a single pass over the inputs.
"""

from __future__ import annotations

import math
import operator
import secrets
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from harness import nvml
from harness.judge.device import Device
from harness.judge.process.sandbox import Worker, WorkerLied, claimed
from harness.shared.draws import Draw
from harness.shared.mixing import Mix, Renewal, mixes, touches
from harness.shared.trees import map_tensors, walk_tensors

READING_MS = 40.0  # of calls per reading, about
MAX_CALLS = 256
READINGS = 5  # of which the fastest counts
#: Where others make processes all the time, and processor time is not known of any of the former.
MOST_READINGS = 20
EXAMINED = 5  # calls of that one
MAX_SAMPLE_BYTES = 64 << 20
#: The device's share of time at work: over so many of the driver's samples (a fifth of a second
#: each on an H200), but for one that began before the readings, if they come in so many seconds.
BUSY_SAMPLES, BUSY_S = 2, 2.5
BUSY_STEP = 0.01  # in which the driver tells the share
BUSY_EXAMINED = 2  # of those readings


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What the calls of an epoch run on: mixtures of the draws of `seeds`, one more than there
    are input sets, each with gradients of its outputs, as `renewal` allows."""

    seeds: tuple[int, ...] = ()
    grad_seeds: tuple[int, ...] = ()
    renewal: Renewal = field(default_factory=Renewal)

    @classmethod
    def fresh(cls, sets: int, renewal: Renewal) -> Inputs:
        """From secret seeds that are not used again."""
        return cls(
            seeds=tuple(secrets.randbits(48) for _ in range(sets + 1)),
            grad_seeds=tuple(secrets.randbits(48) for _ in range(sets)),
            renewal=renewal,
        )

    def draw(self, mix_seed: int, call: int) -> tuple[Draw, int]:
        """The inputs of one of the calls that got their values by `mix_seed`, and the seed of the
        gradients of its outputs."""
        return self._draw(self._mixes(mix_seed), call)

    def draw_touched(self, settle_seed: int, mix_seed: int, call: int) -> tuple[Draw, int]:
        """The same for a call whose inputs got `settle_seed`'s values, then `mix_seed`'s: those
        in part where that is allowed, else as a whole."""
        if not self.renewal.touch:
            return self.draw(mix_seed, call)
        return self._draw(touches(mix_seed, self._mixes(settle_seed), list(self.seeds)), call)

    def _mixes(self, seed: int) -> list[tuple[int, Mix]]:
        return mixes(seed, list(self.seeds), len(self.grad_seeds), mix=self.renewal.mix)

    def _draw(self, chosen: list[tuple[int, Mix]], call: int) -> tuple[Draw, int]:
        first, mix = chosen[call]
        return Draw(seed=self.seeds[first], mix=mix), self.grad_seeds[call]


class Examiner(Protocol):
    """Looks at what timed calls returned."""

    def reveal(
        self, worker: Worker, mode: str, draw: Draw, grad_seed: int, unit: int, call: int
    ) -> None:
        """Ask for what a call of a unit returned, and look at it."""
        ...

    def first(self, worker: Worker, mode: str, draw: Draw, grad_seed: int, call: int) -> None:
        """Ask for what a call returned that met its values for the first time, and look at it."""
        ...

    def sampled(
        self, mode: str, draw: Draw, grad_seed: int, sample_seed: int, samples: Any
    ) -> None:
        """Look at the samples of what a call returned."""
        ...


@dataclass(frozen=True, kw_only=True)
class Reading:
    """`call_ms`: a call by the judge's clock. `cores`: how many the worker's processes kept busy
    meanwhile. `host_ms`: what the host alone needs for such a call; only of a trusted worker.
    `busy_ms`: how long such a call keeps the device busy; only where that was asked."""

    call_ms: float
    cores: float
    host_ms: float | None = None
    busy_ms: float | None = None


def read(
    worker: Worker,
    mode: str,
    inputs: Inputs,
    *,
    call_ms: float,
    device: Device,
    timeout_s: float,
    examiner: Examiner | None,
    share: float = 1.0,
    asks: Callable[[Reading], bool] = lambda reading: False,
) -> Reading:
    """Time calls of `mode`. `call_ms`: about what one takes; `share`: how much of a reading's time
    is wanted. Without an `examiner` the worker is one that never loads a solution. `asks`: whether,
    after such a reading, it is to be found out how long the device was busy, too (CUDA).

    On a CPU that others use too, processor time may be less than has passed, and then counts,
    where all of it is known (`usage`).
    Raises as `Worker.ask` does, and whatever `examiner` raises.
    """
    cuda = device.type == "cuda"
    calls = min(MAX_CALLS, max(1, math.ceil(share * READING_MS / call_ms)))
    renewal, sets = inputs.renewal, len(inputs.grad_seeds)
    passes = math.ceil(calls / sets)
    settle_seed = secrets.randbits(48)
    settled = worker.ask(
        "settle",
        timeout_s=timeout_s,
        mode=mode,
        mix_seed=settle_seed,
        touch=renewal.touch,
        seeded=renewal.seeded,
        host=cuda and examiner is None,
    ).body["answer"]
    order = _Order(mode=mode, inputs=inputs, passes=passes, settle_seed=settle_seed + 1)
    before_s = worker.cpu_s()
    fastest, total_s = _fastest(worker, order, timeout_s, cuda=cuda, trusted=examiner is None)
    busy_s = worker.cpu_s() - before_s
    reading = Reading(
        call_ms=1e3 * fastest.call_s,
        cores=busy_s / total_s,
        host_ms=None if examiner else settled.get("host_ms"),
    )
    if examiner is not None:
        fastest.examine(order, examiner)
    if not cuda or not asks(reading):
        return reading
    busy_ms = _busy_ms(worker, order, timeout_s, device=device, examiner=examiner)
    return replace(reading, busy_ms=busy_ms)


@dataclass(frozen=True, kw_only=True)
class _Order:
    """What each reading orders, each with seeds of its own."""

    mode: str
    inputs: Inputs
    passes: int
    settle_seed: int


@dataclass(frozen=True, kw_only=True)
class _Taken:
    """One reading of `calls` calls, fewer than were ordered where outputs are large or calls take
    longer than was claimed: `span_s` from the order to all samples, of which `counted_s` counts;
    whether processor time is `known`."""

    calls: int
    span_s: float
    counted_s: float
    known: bool
    mix_seed: int
    sample_seed: int
    samples: Any

    @property
    def call_s(self) -> float:
        return self.counted_s / self.calls

    def examine(self, order: _Order, examiner: Examiner) -> None:
        """Look at some of the calls."""
        inputs, sets = order.inputs, len(order.inputs.grad_seeds)
        calls = range(self.calls)
        for number in secrets.SystemRandom().sample(calls, min(EXAMINED, len(calls))):
            unit, call = divmod(number, sets)
            draw, grad_seed = inputs.draw_touched(order.settle_seed, self.mix_seed + unit + 1, call)
            one: Any = map_tensors(operator.itemgetter(number), self.samples)
            examiner.sampled(order.mode, draw, grad_seed, self.sample_seed, one)


def _fastest(
    worker: Worker, order: _Order, timeout_s: float, *, cuda: bool, trusted: bool
) -> tuple[_Taken, float]:
    """The fastest of the readings, and how long they took together."""
    fastest: _Taken | None = None
    count, total_s, known = 0, 0.0, cuda
    while count < READINGS or not (known or count >= MOST_READINGS):
        one = _take(worker, order, timeout_s, cuda=cuda, trusted=trusted)
        count, total_s, known = count + 1, total_s + one.span_s, known or one.known
        if fastest is None or one.call_s < fastest.call_s:
            fastest = one
    assert fastest is not None
    return fastest, total_s


def _busy_ms(
    worker: Worker, order: _Order, timeout_s: float, *, device: Device, examiner: Examiner | None
) -> float | None:
    """How long a call keeps the device busy, by what the driver tells of it; None where it tells
    nothing. Its figure is rounded: up for a solution (an `examiner` looks on), down for the
    reference. A solution that leaves calls out meanwhile is found out where they are looked at."""
    taken: list[_Taken] = []
    shares: list[float] = []
    began = time.monotonic()
    with nvml.card(device.uuid) as card:
        if card is None:
            return None
        busy = nvml.BusyShares(*card)
        busy.new()
        while len(shares) < 1 + BUSY_SAMPLES and time.monotonic() - began < BUSY_S:
            taken.append(_take(worker, order, timeout_s, cuda=True, trusted=examiner is None))
            shares += busy.new()
    if len(shares) < 1 + BUSY_SAMPLES:
        return None
    if examiner is not None:
        for one in secrets.SystemRandom().sample(taken, min(BUSY_EXAMINED, len(taken))):
            one.examine(order, examiner)
    share = statistics.fmean(shares[1:]) + (BUSY_STEP if examiner is not None else 0.0)
    return 1e3 * share * statistics.fmean(one.span_s / one.calls for one in taken)


def _take(worker: Worker, order: _Order, timeout_s: float, *, cuda: bool, trusted: bool) -> _Taken:
    """One reading. What is looked at is decided when all have been taken: whoever is faster in
    one of them only has to be right in that one."""
    renewal, sets = order.inputs.renewal, len(order.inputs.grad_seeds)
    mix_seed = secrets.randbits(48)
    before = None if cuda else worker.usage()
    began = time.monotonic()
    worker.ask(
        "stopwatch",
        timeout_s=timeout_s,
        mode=order.mode,
        mix_seed=mix_seed,
        passes=order.passes,
        touch=renewal.touch,
        seeded=renewal.seeded,
    )
    sample_seed = secrets.randbits(48)
    message = worker.ask(
        "samples",
        timeout_s=timeout_s,
        max_tensor_bytes=MAX_SAMPLE_BYTES,
        ipc=False,  # memory of the worker's could be written when the clock has stopped
        sample_seed=sample_seed,
    )
    span_s = time.monotonic() - began
    busy_s = before.busy_s(worker.usage(), trusted=trusted) if before else None
    with claimed():
        samples = message.trees["samples"]
        lengths = {len(tensor) for _, tensor in walk_tensors(samples, "")}
        calls = lengths.pop()
        if lengths or calls % sets or not 0 < calls <= order.passes * sets:
            raise WorkerLied("not every call that was ordered has a sample")
    return _Taken(
        calls=calls,
        span_s=span_s,
        counted_s=span_s if busy_s is None else min(span_s, busy_s),
        known=busy_s is not None,
        mix_seed=mix_seed,
        sample_seed=sample_seed,
        samples=samples,
    )
