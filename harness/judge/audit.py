"""Does the claim hold? One function per rule, and the tuple of them.

A rule returns a one-line complaint with the figure claimed and the figure found, or None.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.judge.device import Device
from harness.judge.timing import clock
from harness.judge.timing import unseen as first_calls
from harness.judge.timing.baseline import Baseline
from harness.judge.timing.epochs import ESCAPED_FLAG
from harness.judge.timing.measure import LAUNCH_BOUND
from harness.records import Timing
from harness.wording import counted

OTHERS = "; other programs do the same: run it again with --fresh when there are none"
REFERENCE_SHARE = {"cuda": 0.10, "cpu": 0.50}  # a CPU is shared with everything else
REFERENCE_SLACK_MS = {"cuda": 0.005, "cpu": 0.05}
#: On a GPU, where the host sets the pace: recurrent references of 80 ms took up to 13 % longer
#: beside copies of themselves on an H200.
HOST_SHARE = 0.25
UNCLOCKED = "unclocked"
REFERENCE_FASTER = "reference_faster"
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
    """The reference is no slower beside the solution than where no solution is loaded; on a CPU
    that others use too, by its fastest calls, which are what the ratio goes by."""
    timing, kind = claim.timing, claim.device.type
    known = _alone(claim)
    if not known:
        return None
    allowed = max(ms * (1 + share) for ms, share in known) + REFERENCE_SLACK_MS[kind]
    if timing.reference_ms <= allowed:
        return None
    return (
        f"{timing.mode}: the reference took {timing.reference_ms:.4g} ms beside the solution, "
        f"{max(ms for ms, _ in known):.4g} ms alone{OTHERS if kind == 'cpu' else ''}"
    )


def _alone(claim: Claim) -> list[tuple[float, float]]:
    """What the reference took where no solution is loaded, by the meter of the claim: the wall
    clock, where the host sets the pace beside the solution; and by which share that may vary."""
    kind, found = claim.device.type, []
    for known in claim.baseline.of_this_run(claim.timing.mode):
        ms, share = known.reference_ms, REFERENCE_SHARE[kind]
        if kind == "cuda" and clock.HOST_BOUND in claim.timing.flags:
            by_wall = clock.HOST_BOUND in known.flags
            wall_ms = ms if by_wall else known.reference_wall_ms or ms
            if by_wall or wall_ms > ms * (1 + share):
                share = HOST_SHARE
            ms = wall_ms
        found.append((ms, share))
    return found


def reference_faster(claim: Claim) -> list[str]:
    """The flag `MODE:reference_faster` where the reference takes less beside the solution than
    alone, by more than it may take longer. That costs the solution; but who makes both sides' times
    shorter keeps the ratio, and shows a larger share of the limit."""
    timing, kind = claim.timing, claim.device.type
    least_ms = min((ms / (1 + share) for ms, share in _alone(claim)), default=0.0)
    least_ms -= REFERENCE_SLACK_MS[kind]
    return [f"{timing.mode}:{REFERENCE_FASTER}"] if timing.reference_ms < least_ms else []


def stopwatch(claim: Claim) -> str | None:
    """By the judge's own clock the solution is as much faster than the reference as is claimed."""
    return clock.complaint(*_clocked(claim))


def asks_the_device(claim: Claim) -> bool:
    """Whether how long the device was busy could decide about `stopwatch`."""
    return clock.asks_the_device(*_clocked(claim))


def _clocked(claim: Claim) -> tuple[Timing, list[Timing], str, float]:
    readings = claim.baseline.stopwatches(claim.timing.mode)
    return claim.timing, readings, claim.device.type, claim.forward_excess_ms


def forward_excess_ms(timings: Mapping[str, Timing], baseline: Baseline) -> float:
    """What a `Claim` about the mode `backward` may add, whose readings begin with a forward: that
    may be slow, as where it does a part of the backward's work. Both times are the judge's own."""
    own, readings = timings.get("forward_train"), baseline.stopwatches("forward_train")
    if own is None or own.stopwatch_ms is None or not readings:
        return 0.0
    return max(0.0, own.stopwatch_ms - min(r.stopwatch_ms or 0.0 for r in readings))


def unclocked(claim: Claim) -> list[str]:
    """The flag `MODE:unclocked` where `stopwatch` could refute no claim at all."""
    timing, readings, kind, _ = _clocked(claim)
    sees = all(clock.sees(reading, timing, kind) for reading in readings)
    return [] if sees else [f"{timing.mode}:{UNCLOCKED}"]


def unseen(claim: Claim) -> str | None:
    """Values that come for the first time take a solution no longer than those that rows of come
    again in."""
    timing, kind = claim.timing, claim.device.type
    if not first_calls.slower(timing, kind):
        return None
    return (
        f"{timing.mode}: a call took {timing.solution_ms:.4g} ms, but {timing.unseen_ms:.4g} ms on "
        "values of which nothing was met before: something is kept from call to call"
        f"{OTHERS if kind == 'cpu' else ''}"
    )


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
    fastest = min(ms for epoch in claim.timing.epochs for ms in epoch.solution_ms)
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
    unseen,
)


def in_doubt(claim: Claim) -> bool:
    """Whether the claim fails a rule that the baseline bears on: the machine may have changed."""
    return any(rule(claim) for rule in (reference_times, stopwatch))


def close(claim: Claim) -> bool:
    """Whether the claim holds only by what readings of the reference vary."""
    return clock.close(*_clocked(claim))


def complaint(claim: Claim) -> str | None:
    """What does not hold about one mode's claim, or None."""
    return next((text for rule in RULES if (text := rule(claim))), None)


def with_earned_walls(claim: Claim) -> Timing:
    """The timing with times by the wall clock that earn nothing: the solution's no less than its
    calls take, the reference's no more than where no solution is loaded. What the solution's
    launches take beyond its calls stays a claim, but where the judge's clock found a call to be
    long, and only the device short: then it is what the clock shows."""
    timing, baseline = claim.timing, claim.baseline
    own, theirs = timing.solution_wall_ms, timing.reference_wall_ms
    walls = [t.reference_wall_ms for t in baseline.of_this_run(timing.mode)]
    known = [ms for ms in walls if ms is not None]
    if own is None or theirs is None or not known:
        return timing
    return dataclasses.replace(
        timing,
        solution_wall_ms=max(own, timing.solution_ms, _seen_wall_ms(claim, min(known))),
        reference_wall_ms=min(theirs, max(known)),
    )


def _seen_wall_ms(claim: Claim, known_ms: float) -> float:
    """What a call took by the judge's clock, less what a reading holds besides, where only the
    device was found to be fast; else 0. Not of `backward`: its readings begin with a forward."""
    timing, readings, _, _ = _clocked(claim)
    if timing.mode == "backward" or not clock.slow(*_clocked(claim)):
        return 0.0
    besides_ms = max((reading.stopwatch_ms or 0.0) - known_ms for reading in readings)
    return (timing.stopwatch_ms or 0.0) - max(0.0, besides_ms)


def launch_bound(claim: Claim) -> list[str]:
    """The flag `MODE:launch_bound` where the judge's clock found a call to be long, and only the
    device short; whatever is claimed of launches."""
    slow = claim.device.type == "cuda" and clock.slow(*_clocked(claim))
    return [f"{claim.timing.mode}:{LAUNCH_BOUND}"] if slow else []


def beats_limit(timing: Timing, limit_ms: float) -> list[str]:
    """The flag `MODE:beats_limit` where a time lies below the physical limit by more than the
    limit is uncertain. No fault: algebra, sparsity or a cache may explain it."""
    beaten = timing.solution_ms < limit_ms * (1 - LIMIT_MARGIN)
    return [f"{timing.mode}:{BEATS_LIMIT}"] if beaten else []


def moved_work(timings: dict[str, Timing]) -> list[str]:
    """The flag `work_moved` where a phase does work of another's; no fault, but the headline
    is forward_backward then."""
    if not {"forward_train", "backward"} <= set(timings):
        return []
    train, both = timings["forward_train"], timings.get("forward_backward")
    heavier = train.solution_ms > MOVED_TRAIN * train.reference_ms
    if both is None:
        return [WORK_MOVED] if heavier else []
    parts = train.solution_ms + timings["backward"].solution_ms
    uneven = abs(parts / both.solution_ms - 1) > MOVED_SUM
    # The reference's own parts may not add up either, where launches overlap.
    own = train.reference_ms + timings["backward"].reference_ms
    natural = abs(own / both.reference_ms - 1) > MOVED_SUM
    return [WORK_MOVED] if heavier or (uneven and not natural) else []
