"""Does the claim hold? One function per rule, and the tuple of them.

A rule returns a one-line complaint with the figure claimed and the figure found, or None.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.judge.baseline import Baseline
from harness.judge.device import Device
from harness.judge.measure import ESCAPED_FLAG
from harness.records import Epoch, Timing
from harness.wording import counted

REFERENCE_SHARE = {"cuda": 0.10, "cpu": 0.50}  # a CPU is shared with everything else
REFERENCE_SLACK_MS = {"cuda": 0.005, "cpu": 0.05}
#: By the judge's clock: how much more than claimed a call may take, on CUDA of what the reference's
#: took, on a CPU of what is claimed to be left of it (there all grows where others take their part:
#: on two cores, honest solutions took up to 0.35 more in another worker).
STOPWATCH_SLACK = {"cuda": 0.25, "cpu": 0.40}
#: As a factor, for who does not claim for sure to be faster: where others have a part of the cores,
#: some honest solution as fast as the reference was refused in every second run of the tests.
PARITY_SLACK = {"cuda": math.inf, "cpu": 1.5}
#: On CUDA: how much more of the host.
STOPWATCH_HOST_MS = 0.05
#: What a claim is not sure of is not claimed, up to this share of it: where others have a part of
#: the cores, an honest 1.00 was read as 1.04, give or take 0.04. Whoever widens the interval to
#: claim less gets no more than this by it.
UNSURE_SHARE = 0.05
UNCLOCKED = "unclocked"
SPARE_CORES = 0.5
FLOOR_SHARE = 0.95  # of the pins' bandwidth: nothing moves bytes faster
BEATS_LIMIT = "beats_limit"
#: The limit is itself a measurement: on an H200, two of it differed by 0.3 %, and a kernel of one
#: shape read 0.7 % faster than the best of those that it was measured with.
LIMIT_MARGIN = 0.01
WORK_MOVED = "work_moved"
MOVED_TRAIN = 1.1  # forward_train over the reference's
MOVED_SUM = 0.15  # forward_train + backward against forward_backward


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One mode's timing, and what it is held against.

    `proven_bytes`: bytes that a call provably has to read from memory. `threads`: those that
    both sides were given, where that is known. `forward_excess_ms`: how much longer than the
    reference's a forward takes by the judge's clock, where one precedes each call.
    """

    timing: Timing
    baseline: Baseline
    device: Device
    proven_bytes: int = 0
    threads: int | None = None
    forward_excess_ms: float = 0.0


def wall_clock(claim: Claim) -> str | None:
    """The times claimed for an epoch fit into the time that the judge waited for it."""
    timing = claim.timing
    for epoch in timing.epochs:
        blocks = (*epoch.blocks, *epoch.disturbed)
        units = [t for b in blocks for t in (*b.reference_ms, *b.solution_ms)]
        claimed_s = sum(units) * timing.calls / 1e3
        if claimed_s > epoch.wall_s:
            return (
                f"{timing.mode}: {claimed_s:.4f} s of measurements are claimed for an epoch "
                f"that took {epoch.wall_s:.4f} s"
            )
    return None


def reference_times(claim: Claim) -> str | None:
    """The reference is no slower beside the solution than where no solution is loaded.

    On a CPU that others use too, by its faster calls: three quarters of them may have been
    disturbed. What a solution gains by slowing those alone, `stopwatch` finds."""
    timing, kind = claim.timing, claim.device.type
    known = claim.baseline.reference_ms(timing.mode)
    if not known:
        return None
    took = _faster_calls_ms(timing) if kind == "cpu" else timing.reference_ms
    allowed = max(known) * (1 + REFERENCE_SHARE[kind]) + REFERENCE_SLACK_MS[kind]
    if took <= allowed:
        return None
    again = "; so it does beside other programs: run it again with --fresh when there are none"
    return (
        f"{timing.mode}: the reference took {took:.4g} ms beside the solution, "
        f"{max(known):.4g} ms alone{again if kind == 'cpu' else ''}"
    )


def _faster_calls_ms(timing: Timing) -> float:
    """The lower quartile of a reference call, over all units."""
    units = sorted(_units_ms(timing.epochs, "reference_ms"))
    return units[len(units) // 4]


def _units_ms(epochs: tuple[Epoch, ...], side: str) -> list[float]:
    return [t for e in epochs for b in e.blocks for t in getattr(b, side)]


def stopwatch(claim: Claim) -> str | None:
    """By the judge's own clock the solution is as much faster than the reference as is claimed.

    What both readings hold besides the call (new values, the sample) cancels: a call may take
    what the reference's took, less the time that the claimed speedup saves, or more the time that
    a claimed slowdown costs. Who does not claim for sure to be faster has little to gain, and gets
    `PARITY_SLACK`; on a GPU, where the host may set the pace of a reading and not of a unit, he is
    not asked. There a reading may also be long for the host alone, as where a call is launched from
    Python: what counts then is how long the device was busy."""
    timing, readings = claim.timing, claim.baseline.stopwatches(claim.timing.mode)
    found, interval = timing.stopwatch_ms, timing.interval
    if not readings:
        return None
    ratio = interval.ratio * (1 - min(interval.half_width, UNSURE_SHARE))
    allowed = max(_allowed_ms(reading, 1 - 1 / ratio, claim.device) for reading in readings)
    allowed += claim.forward_excess_ms
    if ratio <= 1:
        allowed *= PARITY_SLACK[claim.device.type]
    if found is not None and found <= allowed:
        return None
    took = "was not timed" if found is None else f"took {found:.4g} ms"
    if timing.busy_ms is not None:
        device_ms = max(_allowed_device_ms(reading, 1 - 1 / ratio) for reading in readings)
        if timing.busy_ms <= device_ms + claim.forward_excess_ms:
            return None
        took += f" ({timing.busy_ms:.4g} ms of it on the device)"
    return (
        f"{timing.mode}: {interval.ratio:.3g}x is claimed, but by the judge's clock a call "
        f"{took}, at most {allowed:.4g} ms with what such a call takes besides"
    )


def _allowed_ms(reading: Timing, saved: float, device: Device) -> float:
    """Milliseconds that a call may take by the judge's clock which claims to save a part of
    `reading`'s, eager against itself. On CUDA never less than the host needs to order it."""
    if device.type == "cpu":
        return _left_ms(reading, saved) * (1 + STOPWATCH_SLACK["cpu"])
    device_ms, host_ms = _allowed_device_ms(reading, saved), reading.stopwatch_host_ms
    if host_ms is None:
        return device_ms
    return max(device_ms, host_ms * (1 + STOPWATCH_SLACK["cuda"]) + STOPWATCH_HOST_MS)


def _allowed_device_ms(reading: Timing, saved: float) -> float:
    """The same on CUDA, where the device alone sets the pace."""
    assert reading.stopwatch_ms is not None
    return _left_ms(reading, saved) + STOPWATCH_SLACK["cuda"] * reading.stopwatch_ms


def _left_ms(reading: Timing, saved: float) -> float:
    """What is left of `reading`'s."""
    assert reading.stopwatch_ms is not None
    call_ms = min(_units_ms(reading.epochs, "solution_ms"))  # a reading is the least of some, too
    return reading.stopwatch_ms - call_ms * saved


def forward_excess_ms(timings: Mapping[str, Timing], baseline: Baseline) -> float:
    """What a `Claim` about the mode `backward` may add, whose readings begin with a forward: that
    may be slow, as where it does a part of the backward's work. Both times are the judge's own."""
    own, readings = timings.get("forward_train"), baseline.stopwatches("forward_train")
    if own is None or own.stopwatch_ms is None or not readings:
        return 0.0
    return max(0.0, own.stopwatch_ms - min(r.stopwatch_ms or 0.0 for r in readings))


def unclocked(mode: str, baseline: Baseline, device: Device) -> list[str]:
    """The flag `MODE:unclocked` where `stopwatch` could refute no claim at all: a call is so short
    beside what else a reading holds that the reference itself would pass as infinitely fast."""
    readings = baseline.stopwatches(mode)
    blind = [r for r in readings if (r.stopwatch_ms or 0.0) <= _allowed_ms(r, 1.0, device)]
    return [f"{mode}:{UNCLOCKED}"] if blind else []


def cores(claim: Claim) -> str | None:
    """On a CPU both sides get the same number of threads, and no process beside the worker."""
    timing, threads = claim.timing, claim.threads
    if claim.device.type != "cpu" or threads is None or timing.cores is None:
        return None
    if timing.cores <= threads + SPARE_CORES:
        return None
    return (
        f"{timing.mode}: {timing.cores:.1f} cores were busy in the worker's processes, "
        f"where both sides are given {counted(threads, 'thread')}"
    )


def escaped(claim: Claim) -> str | None:
    """No work on the device outlives the clock."""
    if ESCAPED_FLAG not in claim.timing.flags:
        return None
    return f"{claim.timing.mode}: work went on on the device after the timed region had ended"


def physical_floor(claim: Claim) -> str | None:
    """No sample is faster than the memory's pins could move what must be read. The L2 may hold
    some of it at the end of an epoch's draw, but the flush replaces that."""
    rate = claim.device.pin_bandwidth_bytes_per_s
    if rate is None:
        return None
    floor_ms = FLOOR_SHARE * claim.proven_bytes / rate * 1e3
    fastest = min(_units_ms(claim.timing.epochs, "solution_ms"))
    if fastest >= floor_ms:
        return None
    return (
        f"{claim.timing.mode}: {fastest:.4g} ms is claimed, but reading the "
        f"{claim.proven_bytes} bytes that the result depends on takes {floor_ms:.4g} ms"
    )


Rule = Callable[[Claim], str | None]
RULES: tuple[Rule, ...] = (
    wall_clock,
    reference_times,
    escaped,
    physical_floor,
    cores,
    stopwatch,
)


def in_doubt(claim: Claim) -> bool:
    """Whether the claim fails a rule that the baseline bears on: the machine may have changed."""
    return any(rule(claim) for rule in (reference_times, stopwatch))


def complaint(claim: Claim) -> str | None:
    """What does not hold about one mode's claim, or None."""
    return next((text for rule in RULES if (text := rule(claim))), None)


def with_earned_walls(timing: Timing, baseline: Baseline) -> Timing:
    """`timing` with times by the wall clock that earn nothing: the solution's no less than its
    calls take, the reference's no more than where no solution is loaded. What the solution's
    launches take beyond its calls stays a claim."""
    own, theirs = timing.solution_wall_ms, timing.reference_wall_ms
    walls = [t.reference_wall_ms for t in baseline.of_this_run(timing.mode)]
    known = [ms for ms in walls if ms is not None]
    if own is None or theirs is None or not known:
        return timing
    return dataclasses.replace(
        timing,
        solution_wall_ms=max(own, timing.solution_ms),
        reference_wall_ms=min(theirs, max(known)),
    )


def beats_limit(timing: Timing, limit_ms: float) -> list[str]:
    """The flag `MODE:beats_limit` where a time lies below the physical limit by more than the
    limit is uncertain. No fault: algebra, sparsity or a cache may explain it."""
    beaten = timing.solution_ms < limit_ms * (1 - LIMIT_MARGIN)
    return [f"{timing.mode}:{BEATS_LIMIT}"] if beaten else []


def moved_work(timings: dict[str, Timing]) -> list[str]:
    """The flag `work_moved` where a phase does work of another's; no fault, but the headline
    is forward_backward then."""
    if not {"forward_train", "backward", "forward_backward"} <= set(timings):
        return []
    train, both = timings["forward_train"], timings["forward_backward"]
    parts = train.solution_ms + timings["backward"].solution_ms
    heavier = train.solution_ms > MOVED_TRAIN * train.reference_ms
    uneven = abs(parts / both.solution_ms - 1) > MOVED_SUM
    # The reference's own parts may not add up either, where launches overlap.
    own = train.reference_ms + timings["backward"].reference_ms
    natural = abs(own / both.reference_ms - 1) > MOVED_SUM
    return [WORK_MOVED] if heavier or (uneven and not natural) else []
