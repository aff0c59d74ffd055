"""How much a call may take by the judge's own clock, for what is claimed of it.

A reading of `stopwatch` holds more than the call: new values, the sample. The reference's, where no
solution is loaded, holds the same, so that cancels: a call may take what the reference's took, less
the time that the claimed speedup saves. On a GPU the host may take longer for a reading than the
device, and then the clock is blind; what counts there is how long the device was busy.
"""

from __future__ import annotations

import math

from harness.records import Timing

#: How much more than claimed a call may take, as a part of what is claimed to be left of the
#: reference's (on a CPU all grows where others take their part: on two cores, honest solutions took
#: up to 0.35 more in another worker).
SLACK = {"cuda": 0.25, "cpu": 0.40}
#: On a CPU, what a claim may need of that unasked: more, and the reference is read once more, and
#: that alone counts. Of a call of 0.1 ms, readings of the reference came out a fifth apart.
UNASKED_SLACK = 0.15
#: On CUDA, too: a part of what the reference's took, and some of the time that launches, caches and
#: the driver's sampling take; together with the former no more than `SLACK` of all of it.
SLACK_SHARE, SLACK_MS = 0.05, 0.1
#: As a factor, for who does not claim for sure to be faster: where others have a part of the cores,
#: some honest solution as fast as the reference was refused in every second run of the tests.
PARITY_SLACK = {"cuda": math.inf, "cpu": 1.5}
HOST_SLACK_MS = 0.05  # on CUDA: how much more of the host, beside its `SLACK`
#: What a claim is not sure of is not claimed, up to this share of it: where others have a part of
#: the cores, an honest 1.00 was read as 1.04, give or take 0.04. Whoever widens the interval to
#: claim less gets no more than this by it.
UNSURE_SHARE = 0.05
LONGEST_GATE_MS = 20.0  # worker/meters.py
HOST_BOUND = "host_bound"


def complaint(timing: Timing, readings: list[Timing], kind: str, excess_ms: float) -> str | None:
    """What the judge's clock says against the claim of `timing`, or None. `readings`: eager against
    itself; `kind`: of device; `excess_ms`: what a call may take beside.

    Who does not claim for sure to be faster has little to gain, and gets `PARITY_SLACK`; on a GPU,
    where the host may set the pace of a reading and not of a unit, he is not asked. There a reading
    may also be long for the host alone, as where a call is launched from Python: then, if the host
    did no more than that, and where the clock is blind, it counts how long the device was busy."""
    if not readings:
        return None
    found, ratio = timing.stopwatch_ms, _sure_ratio(timing)
    saved, allowed = 1 - 1 / ratio, _most_ms(timing, readings, kind, excess_ms)
    text = f"{timing.mode}: {timing.interval.ratio:.3g}x is claimed, but"
    beside = "with what such a call takes besides"
    if found is not None and found <= allowed:
        busy = [reading for reading in readings if reading.busy_ms is not None]
        if ratio <= 1 or timing.busy_ms is None or not busy:
            return None
        allowed = max(_allowed_device_ms(reading, saved) for reading in busy) + excess_ms
        if timing.busy_ms <= allowed:
            return None
        took = f"kept the device busy for {timing.busy_ms:.4g} ms"
        return f"{text} a call {took}, at most {allowed:.4g} ms {beside}"
    took = "was not timed" if found is None else f"took {found:.4g} ms"
    if timing.busy_ms is not None:
        device_ms = max(_allowed_device_ms(reading, saved) for reading in readings) + excess_ms
        if timing.busy_ms <= device_ms and _launched(timing, allowed):
            return None
        took += f" ({timing.busy_ms:.4g} ms of it on the device)"
    return f"{text} by the judge's clock a call {took}, at most {allowed:.4g} ms {beside}"


def slow(timing: Timing, readings: list[Timing], kind: str, excess_ms: float) -> bool:
    """Whether a call takes longer by the clock than is claimed, however busy the device was."""
    found = timing.stopwatch_ms
    return bool(readings and found and found > _most_ms(timing, readings, kind, excess_ms))


def close(timing: Timing, readings: list[Timing], kind: str, excess_ms: float) -> bool:
    """Whether the claim holds by a slack that another reading of the reference could take away."""
    found = timing.stopwatch_ms
    if kind != "cpu" or found is None or not readings or _sure_ratio(timing) <= 1:
        return False
    return found > _most_ms(timing, readings, kind, excess_ms, UNASKED_SLACK)


def _most_ms(
    timing: Timing,
    readings: list[Timing],
    kind: str,
    excess_ms: float,
    cpu_slack: float = SLACK["cpu"],
) -> float:
    """The most milliseconds that a call may take by the clock."""
    ratio = _sure_ratio(timing)
    saved = 1 - 1 / ratio
    most = max(_allowed_ms(reading, saved, kind, cpu_slack) for reading in readings) + excess_ms
    return most * PARITY_SLACK[kind] if ratio <= 1 else most


def _launched(timing: Timing, allowed_ms: float) -> bool:
    """Whether a call that takes longer than `allowed_ms` can have been launched that slowly, and no
    more: then a unit of its calls is ordered behind a gate. Else it is timed by the wall clock, as
    the judge's is, or the host does more than to order it."""
    late_ms = timing.calls * ((timing.stopwatch_ms or 0.0) - allowed_ms)
    return HOST_BOUND not in timing.flags and late_ms <= LONGEST_GATE_MS


def asks_the_device(timing: Timing, readings: list[Timing], kind: str, excess_ms: float) -> bool:
    """Whether how long the device was busy could decide about the claim of `timing`: the clock
    speaks against it, or is blind, and more is claimed than any slack allows."""
    if complaint(timing, readings, kind, excess_ms):
        return True
    return 1 - 1 / _sure_ratio(timing) > SLACK[kind] and any(blind(r, kind) for r in readings)


def blind(reading: Timing, kind: str) -> bool:
    """Whether the clock could refute no claim at all: a call is so short beside what else a reading
    holds that `reading`, eager against itself, would pass as infinitely fast."""
    return (reading.stopwatch_ms or 0.0) <= _allowed_ms(reading, 1.0, kind)


def sees(reading: Timing, timing: Timing, kind: str) -> bool:
    """Whether some claim could be refuted beside `reading`: by the clock, or by how long the device
    was busy where that was asked, as it is where `timing` claims much."""
    if not blind(reading, kind):
        return True
    if reading.busy_ms is None or reading.busy_ms <= _allowed_device_ms(reading, 1.0):
        return False
    return timing.busy_ms is not None or 1 - 1 / _sure_ratio(timing) <= SLACK[kind]


def _sure_ratio(timing: Timing) -> float:
    """The speedup that is claimed for sure."""
    interval = timing.interval
    return interval.ratio * (1 - min(interval.half_width, UNSURE_SHARE))


def _allowed_ms(reading: Timing, saved: float, kind: str, cpu_slack: float = SLACK["cpu"]) -> float:
    """Milliseconds that a call may take by the judge's clock which claims to save a part of
    `reading`'s. On CUDA never less than the host needs to order it."""
    assert reading.stopwatch_ms is not None
    if kind == "cpu":
        return _left_ms(reading, reading.stopwatch_ms, saved) * (1 + cpu_slack)
    clock_ms, host_ms = reading.stopwatch_ms, reading.stopwatch_host_ms
    device_ms = _with_slack_ms(_left_ms(reading, clock_ms, saved), clock_ms)
    if host_ms is None:
        return device_ms
    return max(device_ms, host_ms * (1 + SLACK["cuda"]) + HOST_SLACK_MS)


def _allowed_device_ms(reading: Timing, saved: float) -> float:
    """The same of the device alone: by how long it was busy, where that is known."""
    took_ms = reading.stopwatch_ms if reading.busy_ms is None else reading.busy_ms
    assert took_ms is not None
    return _with_slack_ms(_left_ms(reading, took_ms, saved), took_ms)


def _with_slack_ms(left_ms: float, took_ms: float) -> float:
    """`left_ms` of `took_ms` on CUDA, and the slack. That of a long call is small: a quarter of all
    of it would let who is four times as fast claim anything."""
    long_ms = SLACK["cuda"] * left_ms + SLACK_SHARE * took_ms + SLACK_MS
    return left_ms + min(SLACK["cuda"] * took_ms, long_ms)


def _left_ms(reading: Timing, took_ms: float, saved: float) -> float:
    """What is left of `took_ms` where a part of the call is saved, of which no more can be than it
    took: in caches that are warm, and where processor time counts, it may take less than a call."""
    call_ms = min(ms for epoch in reading.epochs for ms in epoch.solution_ms)
    if saved > 0:
        call_ms = min(call_ms, took_ms)
    return took_ms - call_ms * saved  # both are the least of some
