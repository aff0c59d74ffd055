"""Orders timing, epoch by epoch, and decides when it is enough.

The worker measures; what it answers is a claim. After an epoch the judge may ask for the
output of any timed call of it, chosen then. After the last one it times some calls itself, with
its own clock, from giving the order to having a sample of each call's output (`stopwatch`).
"""

from __future__ import annotations

import dataclasses
import math
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness import stats
from harness.config import Settings
from harness.judge import stopwatch, unseen
from harness.judge.device import Device
from harness.judge.monitor import DROPPED, Monitor
from harness.judge.sandbox import Worker, WorkerLied, claimed
from harness.judge.stopwatch import Examiner, Inputs
from harness.mixing import Renewal
from harness.records import Block, Epoch, Timing
from harness.wording import counted

MIN_CUDA_UNIT_MS = 0.1  # what a unit holds beside its calls is known to half a microsecond or so
MIN_CPU_UNIT_MS = 0.5
MAX_SETS = 64
MAX_CPU_SETS = 256
#: Blocks of an epoch take about this long. Epochs count, not blocks; and before each unit of a long
#: call its inputs are written anew, which takes longer than the call.
CUDA_EPOCH_MS = 60.0
CPU_EPOCH_MS = 100.0
WARM_CALLS = 6
WARM_S = {"cuda": 0.3, "cpu": 0.1}  # a side, at least, until clocks and caches have settled
WARM_SHARE = 0.3  # of it, where the worker has just timed another mode
QUICK_SHARE = 0.3  # of an epoch and of the warm-up, for a quick look on a GPU
LAUNCH_BOUND_RATIO = 1.5  # wall over device time
#: Of shorter calls it is not the same share that is resolved, but the same time: one of 4 us varied
#: by some 0.3 us on an H200.
SHORT_MS = 0.005
RESOLUTION = 3.0  # a unit shorter than this many event pairs is mostly event pair
MAX_DROPPED_SHARE = 0.25
#: An interval that is still wider, relative to the ratio, when time is up has not settled: another
#: process on the card, whatever NVML shows of it, made 2x out of 1x within such intervals.
SETTLED_HALF_WIDTH = 0.02
REVEAL_EVERY = 4
HOST_BOUND = "host_bound"
LAUNCH_BOUND = "launch_bound"
UNSTABLE = "unstable"
BELOW_RESOLUTION = "below_resolution"
ESCAPED_FLAG = "escaped"
#: Of any time that is claimed: no clock tells less, and no order may take longer.
LEAST_MS, MOST_MS = 1e-7, 1e8
#: A device-wide wait after a unit takes its time even when nothing is left to do (14 to 40 us
#: on an H200), but the same for both sides; the solution's is held against the reference's.
ESCAPE_SLACK_MS = 0.02
ESCAPE_SHARE = 0.02  # of the unit


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One epoch: `sets` distinct input sets, each called once a unit, in `blocks` blocks."""

    sets: int
    blocks: int
    epochs_min: int
    epochs_max: int
    budget_s: float


def plan(ms: dict[str, float], *, cuda: bool, settings: Settings) -> Plan:
    """How to measure two sides that take about `ms` milliseconds a call."""
    wanted = MIN_CUDA_UNIT_MS if cuda else MIN_CPU_UNIT_MS
    calls = max(1, math.ceil(wanted / min(ms.values())))
    sets = min(calls, MAX_SETS if cuda else MAX_CPU_SETS)
    block_ms = 2 * sum(ms.values()) * sets
    epoch_ms = CUDA_EPOCH_MS * _share(settings) if cuda else CPU_EPOCH_MS
    blocks = round(min(12, max(3, epoch_ms / block_ms)))
    return Plan(
        sets=sets,
        blocks=blocks,
        epochs_min=settings.epochs_min,
        epochs_max=settings.epochs_max,
        budget_s=settings.mode_budget_s if cuda else settings.cpu_mode_budget_s,
    )


def _share(settings: Settings) -> float:
    return QUICK_SHARE if settings.quick else 1.0


def time_mode(
    worker: Worker,
    mode: str,
    *,
    device: Device,
    settings: Settings,
    renewal: Renewal,
    overhead_ms: float = 0.0,
    examiner: Examiner | None = None,
    clocked: bool = True,
    warm: bool = False,
    asks: Callable[[Timing], bool] = lambda timing: False,
    note: Callable[[str], None] = lambda text: None,
) -> Timing:
    """Time one mode until its interval is narrow enough or its budget is spent.

    `renewal`: how calls may get new values. `overhead_ms`: what an event pair costs, measured
    where no solution was loaded. `examiner` gets to see timed calls that are chosen after they
    have been made. `clocked`: whether the judge's clock is read, too; `asks`: whether, by what it
    says (`stopwatch_ms`), it is to be found out how long the device was busy; not for a quick look.
    `warm`: whether the worker has just timed another mode.
    Raises as `Worker.ask` does, and whatever `examiner` raises.
    """
    cuda = device.type == "cuda"
    note(f"{mode}: warm-up")
    estimates = worker.ask(
        "warm_up",
        timeout_s=settings.call_timeout_s,
        mode=mode,
        seed=secrets.randbits(48),
        calls=WARM_CALLS,
        seconds=WARM_S[device.type] * (WARM_SHARE if warm else _share(settings)),
        mix=renewal.mix,
    ).body["answer"]
    with claimed():
        ms, wall_ms = _pair(estimates["ms"]), _pair(estimates["wall_ms"])
        gated = cuda and not estimates["host_bound"]
    steps = plan(ms, cuda=cuda, settings=settings)
    flags = _host_flags(ms, wall_ms, gated=gated, cuda=cuda)
    course = _Course(
        worker=worker,
        mode=mode,
        steps=steps,
        settings=settings,
        renewal=renewal,
        overhead_ms=overhead_ms if gated else 0.0,
        minima=not cuda,
        examiner=examiner,
    )

    def read(asks: Callable[[stopwatch.Reading], bool]) -> stopwatch.Reading:
        return stopwatch.read(
            worker,
            mode,
            course.inputs,
            call_ms=max(ms.values()),
            device=device,
            timeout_s=settings.call_timeout_s,
            examiner=examiner,
            asks=asks,
        )

    early: stopwatch.Reading | None = None
    began = time.monotonic()
    with Monitor(device) as monitor:
        while True:
            course.epoch(monitor)
            timing = course.timing(flags=flags, wall_ms=wall_ms)
            note(f"{mode}: epoch {len(timing.epochs)}")
            if enough(timing, steps, settings, time.monotonic() - began):
                break
            if early is None and clocked and examiner is None and not cuda:
                # One that others have disturbed would let any claim pass: the better of two, apart.
                early = read(lambda reading: False)

    def with_reading(reading: stopwatch.Reading) -> Timing:
        return dataclasses.replace(
            timing,
            stopwatch_ms=reading.call_ms,
            stopwatch_host_ms=reading.host_ms,
            busy_ms=reading.busy_ms,
            cores=reading.cores,
        )

    unsettled = timing.interval.half_width > SETTLED_HALF_WIDTH and UNSTABLE not in timing.flags
    flags = (*timing.flags, *((UNSTABLE,) if unsettled else ()))
    if not clocked:
        return dataclasses.replace(timing, flags=flags)
    reading = read(lambda reading: not settings.quick and asks(with_reading(reading)))
    if early is not None and early.call_ms < reading.call_ms:
        reading = early
    timing = dataclasses.replace(with_reading(reading), flags=flags)
    if examiner is None:
        return timing
    return unseen.timed(
        worker,
        timing,
        course.inputs,
        kind=device.type,
        timeout_s=settings.call_timeout_s,
        examiner=examiner,
    )


def _host_flags(
    ms: dict[str, float], wall_ms: dict[str, float], *, gated: bool, cuda: bool
) -> tuple[str, ...]:
    """Whether the host, not the device, sets the pace of either side."""
    if cuda and not gated:
        return (HOST_BOUND,)
    slow = [name for name in ms if wall_ms[name] > LAUNCH_BOUND_RATIO * ms[name]]
    return (LAUNCH_BOUND,) if cuda and slow else ()


def enough(timing: Timing, steps: Plan, settings: Settings, spent_s: float) -> bool:
    """Whether to stop: narrow enough from `epochs_min` on, or out of epochs or time.

    At least two epochs are always measured: one carries no interval. Narrow is relative, but below
    some microseconds a call, where it is absolute.
    """
    count = len(timing.epochs)
    if count < 2:
        return False
    if count >= steps.epochs_max or spent_s > steps.budget_s:
        return True
    narrow = settings.half_width * max(1.0, SHORT_MS / timing.solution_ms)
    return count >= steps.epochs_min and timing.interval.half_width <= narrow


@dataclass(kw_only=True)
class _Course:
    """The epochs of one mode so far."""

    worker: Worker
    mode: str
    steps: Plan
    settings: Settings
    renewal: Renewal
    overhead_ms: float
    minima: bool
    examiner: Examiner | None
    inputs: Inputs = field(default_factory=Inputs)
    epochs: list[Epoch] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)

    def epoch(self, monitor: Monitor) -> None:
        """Order one epoch, drop its disturbed blocks, look at one of its outputs."""
        self.inputs = Inputs.fresh(self.steps.sets, self.renewal)
        order_seed = secrets.randbits(48)
        began = time.monotonic()
        answer = self.worker.ask(
            "epoch",
            timeout_s=self.settings.call_timeout_s,
            mode=self.mode,
            seeds=list(self.inputs.seeds),
            grad_seeds=list(self.inputs.grad_seeds),
            blocks=self.steps.blocks,
            order_seed=order_seed,
        ).body["answer"]
        wall_s = time.monotonic() - began
        with claimed():
            self._read(answer, monitor, wall_s)
            kept = self._kept(answer)
        self._reveal(kept, order_seed)

    def _read(self, answer: dict[str, Any], monitor: Monitor, wall_s: float) -> None:
        """What an epoch's answer claims."""
        if len(answer["blocks"]) != self.steps.blocks:
            count = len(answer["blocks"])
            raise WorkerLied(f"{counted(count, 'block')} answered, {self.steps.blocks} ordered")
        kept: list[Block] = []
        disturbed: list[Block] = []
        for claim in answer["blocks"]:
            block = self._block(claim)
            seen = monitor.during(*map(int, claim["span_ns"]))
            self.flags |= seen - set(DROPPED)
            (disturbed if seen & set(DROPPED) else kept).append(block)
            self.flags |= seen & set(DROPPED)
        epoch = Epoch(blocks=tuple(kept), disturbed=tuple(disturbed), wall_s=wall_s)
        if self._escaped(answer["late_ms"], epoch):
            self.flags.add(ESCAPED_FLAG)
        self.epochs.append(epoch)

    def _kept(self, answer: dict[str, Any]) -> list[int]:
        """The units whose outputs the worker has kept, the last ones, as many as fit; of those,
        where the fastest count, the fastest."""
        took_ms = {
            int(unit): _positive(ms)
            for claim in answer["blocks"]
            for unit, ms in zip(claim["units"], claim["candidate"], strict=True)
        }
        kept = [int(unit) for unit in answer["kept"]]
        if not kept or kept != list(took_ms)[-len(kept) :]:
            raise WorkerLied(f"the outputs of units {kept} were kept, not those of the last ones")
        if not self.minima:
            return kept
        return sorted(kept, key=took_ms.__getitem__)[: math.ceil(stats.FASTEST * len(kept))]

    def _escaped(self, late_ms: dict[str, Any], epoch: Epoch) -> bool:
        """Whether the device came to rest later after the solution's units than after the
        reference's, by more than noise."""
        excess_ms = _number(late_ms["candidate"]) - _number(late_ms["reference"])
        blocks = epoch.blocks + epoch.disturbed
        unit_ms = self.steps.sets * min(min(b.solution_ms) for b in blocks)
        return excess_ms > ESCAPE_SLACK_MS + ESCAPE_SHARE * unit_ms

    def _block(self, claim: dict[str, Any]) -> Block:
        """The times of a block per call, less what the event pair costs."""
        reference, candidate = claim["reference"], claim["candidate"]
        if len(reference) != 2 or len(candidate) != 2:
            raise WorkerLied("a block has two units of each side")
        calls = self.steps.sets
        a, b, c, d = (
            max(ms - self.overhead_ms, ms / 10) / calls
            for ms in map(_positive, (*reference, *candidate))
        )
        return Block(reference_ms=(a, b), solution_ms=(c, d))

    def _reveal(self, kept: list[int], order_seed: int) -> None:
        """Look at an output of this epoch: always of the first, of later ones by chance."""
        by_chance = secrets.randbelow(REVEAL_EVERY) == 0
        if self.examiner is None or (len(self.epochs) > 1 and not by_chance):
            return
        unit, call = secrets.choice(kept), secrets.randbelow(self.steps.sets)
        draw, grad_seed = self.inputs.draw(order_seed + unit, call)
        self.examiner.reveal(self.worker, self.mode, draw, grad_seed, unit, call)

    def timing(self, *, flags: tuple[str, ...], wall_ms: dict[str, float]) -> Timing:
        """The samples so far. Where too many blocks were disturbed, none is dropped: what
        remained would be a biased choice, so all are shown, and called unstable."""
        epochs, extra = tuple(self.epochs), set(self.flags)
        dropped = sum(len(e.disturbed) for e in epochs)
        total = dropped + sum(len(e.blocks) for e in epochs)
        if dropped > MAX_DROPPED_SHARE * total or any(not e.blocks for e in epochs):
            epochs = tuple(
                dataclasses.replace(e, blocks=e.blocks + e.disturbed, disturbed=()) for e in epochs
            )
            extra.add(UNSTABLE)
        unit_ms = self.steps.sets * _fastest_ms(epochs)
        if self.overhead_ms and unit_ms < RESOLUTION * self.overhead_ms:
            extra.add(BELOW_RESOLUTION)
        return Timing(
            mode=self.mode,
            calls=self.steps.sets,
            epochs=epochs,
            minima=self.minima,
            flags=(*flags, *sorted(extra)),
            overhead_ms=self.overhead_ms,
            reference_wall_ms=wall_ms["reference"],
            solution_wall_ms=wall_ms["candidate"],
        )


def _fastest_ms(epochs: tuple[Epoch, ...]) -> float:
    return min(ms for e in epochs for ms in (*e.reference_ms, *e.solution_ms))


def _pair(claim: Any) -> dict[str, float]:
    """Times of both sides by name. Raises `WorkerLied`."""
    return {name: _positive(dict(claim).get(name)) for name in ("reference", "candidate")}


def _number(value: Any) -> float:
    """A finite number. Raises `WorkerLied`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise WorkerLied(f"{value!r} is no time")
    return float(value)


def _positive(value: Any) -> float:
    """A time in ms that sums, ratios and logarithms can take. Raises `WorkerLied`."""
    number = _number(value)
    if not LEAST_MS <= number <= MOST_MS:
        raise WorkerLied(f"{value!r} is no time")
    return number
