"""Times one mode: warm-up, epochs until it is enough, and what the judge's own clock says.

The worker measures; what it answers is a claim. After the last epoch (`epochs`) the judge times
some calls itself, from giving the order to having a sample of each call's output (`stopwatch`), and
has calls made on values of which nothing was met before (`unseen`).
"""

from __future__ import annotations

import dataclasses
import operator
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from harness.config import Settings
from harness.judge.device import Device
from harness.judge.process.sandbox import Worker, claimed
from harness.judge.timing import stopwatch, unseen
from harness.judge.timing.claims import pair
from harness.judge.timing.clock import HOST_BOUND
from harness.judge.timing.epochs import UNSTABLE, Epochs, Plan, plan, share
from harness.judge.timing.monitor import Monitor
from harness.judge.timing.stopwatch import Examiner, Reading
from harness.shared.mixing import Renewal
from harness.timings import Timing

WARM_CALLS = 6
WARM_S = {"cuda": 0.3, "cpu": 0.1}  # a side, at least, until clocks and caches have settled
WARM_SHARE = 0.3  # of it, where the worker has just been at work
LAUNCH_BOUND_RATIO = 1.5  # wall over device time
#: Of shorter calls it is not the same share that is resolved, but the same time: one of 4 us varied
#: by some 0.3 us on an H200.
SHORT_MS = 0.005
#: An interval that is still wider, relative to the ratio, when time is up has not settled: another
#: process on the card, whatever NVML shows of it, made 2x out of 1x within such intervals.
SETTLED_HALF_WIDTH = 0.02
LAUNCH_BOUND = "launch_bound"


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
    host_bound: bool = False,
    asks: Callable[[Timing], bool] = lambda timing: False,
    note: Callable[[str], None] = lambda text: None,
) -> Timing:
    """Time one mode until its interval is narrow enough or its budget is spent.

    `renewal`: how calls may get new values. `overhead_ms`: what an event pair costs, measured
    where no solution was loaded. `examiner` gets to see timed calls that are chosen after they
    have been made. `clocked`: whether the judge's clock is read, too; `asks`: whether, by what it
    says (`stopwatch_ms`), it is to be found out how long the device was busy.
    `warm`: whether the worker has just timed another mode, or been at work otherwise.
    `host_bound`: whether it goes by the wall clock from the beginning.
    Raises as `Worker.ask` does, and whatever `examiner` raises.
    """
    note(f"{mode}: warm-up")
    seconds = WARM_S[device.type] * (WARM_SHARE if warm else share(settings))
    singly = mode in renewal.singly
    about = _warm_up(worker, mode, device, settings, renewal, seconds, host_bound)
    epochs = Epochs(
        worker=worker,
        mode=mode,
        steps=plan(about.ms, cuda=device.type == "cuda", settings=settings, singly=singly),
        settings=settings,
        renewal=renewal,
        overhead_ms=overhead_ms if about.gated else 0.0,
        gated=about.gated,
        minima=device.type != "cuda",
        examiner=examiner,
    )

    def read(asks: Callable[[Reading], bool] = lambda reading: False) -> Reading:
        return stopwatch.read(
            worker,
            mode,
            epochs.inputs,
            call_ms=max(about.ms.values()),
            device=device,
            timeout_s=settings.call_timeout_s,
            examiner=examiner,
            share=share(settings) if device.type == "cuda" else 1.0,
            asks=asks,
        )

    # A reading that others have disturbed would let any claim pass: the better of two, apart.
    twice = clocked and examiner is None and device.type == "cpu"
    timing, readings = _measure(epochs, about, device, read if twice else None, note)
    if not clocked:
        return timing
    readings.append(read(lambda one: asks(_with_reading(timing, one))))
    timing = _with_reading(timing, min(readings, key=operator.attrgetter("call_ms")))
    if examiner is None:
        return timing
    return unseen.timed(
        worker,
        timing,
        epochs.inputs,
        kind=device.type,
        timeout_s=settings.call_timeout_s,
        examiner=examiner,
    )


def _measure(
    epochs: Epochs,
    about: _About,
    device: Device,
    read: Callable[[], Reading] | None,
    note: Callable[[str], None],
) -> tuple[Timing, list[Reading]]:
    """Epochs until it is enough; and a reading of the judge's clock between them, where given."""
    readings: list[Reading] = []
    began = time.monotonic()
    with Monitor(device) as monitor:
        while True:
            epochs.measure(monitor)
            timing = epochs.timing(flags=_host_flags(about, device, epochs), wall_ms=about.wall_ms)
            note(f"{epochs.mode}: epoch {len(timing.epochs)}")
            if enough(timing, epochs.steps, epochs.settings, time.monotonic() - began):
                return _settled(timing), readings
            if read is not None and not readings:
                readings.append(read())


@dataclass(frozen=True, kw_only=True)
class _About:
    """What a warm-up told: about how long a call of each side takes, by the worker's meter and by
    the wall clock; whether both can be held back behind a gate (CUDA)."""

    ms: dict[str, float]
    wall_ms: dict[str, float]
    gated: bool


def _warm_up(
    worker: Worker,
    mode: str,
    device: Device,
    settings: Settings,
    renewal: Renewal,
    seconds: float,
    host_bound: bool,
) -> _About:
    answer = worker.ask(
        "warm_up",
        timeout_s=settings.call_timeout_s,
        mode=mode,
        seed=secrets.randbits(48),
        calls=WARM_CALLS,
        seconds=seconds,
        mix=renewal.mix,
        singly=mode in renewal.singly,
        wall=host_bound,
    ).body["answer"]
    with claimed():
        return _About(
            ms=pair(answer["ms"]),
            wall_ms=pair(answer["wall_ms"]),
            gated=not answer["host_bound"] and device.type == "cuda",
        )


def _host_flags(about: _About, device: Device, epochs: Epochs) -> tuple[str, ...]:
    """Whether the host, not the device, sets the pace of either side."""
    if device.type != "cuda":
        return ()
    if not epochs.gated:
        return (HOST_BOUND,)
    slow = any(about.wall_ms[name] > LAUNCH_BOUND_RATIO * ms for name, ms in about.ms.items())
    return (LAUNCH_BOUND,) if slow else ()


def _settled(timing: Timing) -> Timing:
    """The timing, `unstable` where its interval is wide at the end."""
    if timing.interval.half_width <= SETTLED_HALF_WIDTH or UNSTABLE in timing.flags:
        return timing
    return dataclasses.replace(timing, flags=(*timing.flags, UNSTABLE))


def _with_reading(timing: Timing, reading: Reading) -> Timing:
    return dataclasses.replace(
        timing,
        stopwatch_ms=reading.call_ms,
        stopwatch_host_ms=reading.host_ms,
        busy_ms=reading.busy_ms,
        cores=reading.cores,
    )


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
