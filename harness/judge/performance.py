"""What a solution that is right gains: its times, its memory, and whether it was its own work.

All of it is what the worker claims; each claim is held against what the judge knows: times when
nothing of the solution is alive any more, so that the reference may be measured again.
"""

from __future__ import annotations

import dataclasses
import secrets

from harness.judge import audit
from harness.judge.case import Case, Note
from harness.judge.checking import checks
from harness.judge.process.sandbox import Worker, claimed
from harness.judge.rows import Findings
from harness.judge.timing import baseline
from harness.judge.timing.measure import time_mode
from harness.judge.timing.peaks import peaks
from harness.judge.verdicts import Ended, Progress, verdict
from harness.records import Phase, Status, Timing

#: Of the time: less in kernels of its own, and a solution is the library's with a token beside it.
TOKEN_SHARE = 0.01
NOT_PROFILED = "not_profiled"
VALUES_COME_AGAIN = "values_come_again"


def measure(
    case: Case,
    judged: checks.Judged,
    modes: tuple[str, ...],
    phase: Progress,
    found: Findings,
    note: Note,
) -> None:
    """Fill `found` with what `modes` take. Raises `Ended` where a claim does not hold, and as
    `Worker.ask` does."""
    settings, worker = case.context.settings, judged.worker
    phase.enter(Phase.FIND)  # waiting for builds to end is neither checking nor measuring
    with case.context.quiet():
        phase.enter(Phase.TIME)
        for mode in modes:
            _time(case, judged, mode, found, note)
    phase.enter(Phase.MEMORY)
    note("memory")
    _memory(case, worker, modes, found)
    if modes and not case.subject.renewal.mix:
        found.flags.append(VALUES_COME_AGAIN)
    if modes and not settings.profile:
        found.flags.append(NOT_PROFILED)
    if settings.profile:
        phase.enter(Phase.PROFILE)
        note("profile")
        _provenance(case, worker, modes, found)
    worker.pids()  # still watched over, so that nothing of it was unseen


def _time(case: Case, judged: checks.Judged, mode: str, found: Findings, note: Note) -> None:
    timing = _timed(case, judged, mode, found, note)
    claim = _claim(case, timing, found)
    if claim.device.type == "cpu" and (audit.in_doubt(claim) or audit.unseen(claim)):
        # Others may have kept the cores busy meanwhile; what a solution does, it does once more.
        timing = _timed(case, judged, mode, found, note)
    found.timings[mode] = timing
    if judged.wrong_reveal:
        raise _rejected(f"the output of a timed call ({mode}) is wrong: {judged.wrong_reveal}")
    found.flags += [f"{mode}:{flag}" for flag in timing.flags]


def _timed(case: Case, judged: checks.Judged, mode: str, found: Findings, note: Note) -> Timing:
    device = case.context.device
    return time_mode(
        judged.worker,
        mode,
        device=device,
        settings=case.context.settings,
        renewal=case.subject.renewal,
        overhead_ms=case.baseline.overhead_ms,
        examiner=judged,
        warm=bool(found.timings) or device.type == "cuda",  # which has just been at work in checks
        host_bound=case.baseline.host_bound(mode),
        asks=lambda timing: _asks(case, _claim(case, timing, found)),
        note=note,
    )


def _asks(case: Case, claim: audit.Claim) -> bool:
    """Whether it is to be found out how long the device was busy, which takes half a second: of a
    quick look only where the clock speaks against the claim."""
    if case.context.settings.quick:
        return audit.stopwatch(claim) is not None
    return audit.asks_the_device(claim)


def _memory(case: Case, worker: Worker, modes: tuple[str, ...], found: Findings) -> None:
    training = "forward_backward" in modes
    seen = peaks(case.context, worker, "candidate", training=training)
    found.memory, flags = seen.beside(case.baseline.seen)
    found.flags += flags
    if complaint := seen.complaint(case.work.proven):
        raise _rejected(complaint)


def _provenance(case: Case, worker: Worker, modes: tuple[str, ...], found: Findings) -> None:
    """Did anything of the solution's own run? Raises `Ended` with `not_exercised` if not."""
    mode = "forward_backward" if "forward_backward" in modes else "forward"
    answer = worker.ask(
        "profile",
        timeout_s=case.context.settings.call_timeout_s,
        mode=mode,
        seed=secrets.randbits(48),
    ).body["answer"]
    with claimed():
        share = None if answer.get("own_share") is None else float(answer["own_share"])
        if share is not None and not 0 <= share <= 1:
            raise ValueError(f"a share of {share}")
    found.own_share = None if share is None else round(share, 4)
    failed = [b for b in found.builds if b.get("error")]
    idle = answer.get("native_calls") == 0 or share == 0
    if failed and (idle or len(failed) == len(found.builds)):
        text = "a build failed and was swallowed, so no kernel of its own ran"
        raise _not_exercised(f"{text}: {failed[0]['error']}")
    if found.builds and idle:
        raise _not_exercised("right, but nothing of what it built ran: PyTorch did the work")
    if (not found.builds and not share) or (share is not None and share < TOKEN_SHARE):
        found.flags.append("library_only")
        if case.context.settings.require_own_kernels:
            took = f"kernels of its own took {share:.2%} of the time" if share else ""
            took = took or "no kernel of its own ran"
            raise _not_exercised(f"right, but {took}, and --require-own-kernels is given")


def hold(case: Case, phase: Progress, found: Findings, note: Note) -> None:
    """Hold each mode's times against the baseline, the clock and the physical limit. Raises
    `Ended`, and `BaselineError` where the reference cannot be measured again."""
    phase.enter(Phase.AUDIT)
    note("audit")
    found.flags += audit.moved_work(found.timings)
    for mode, timing in list(found.timings.items()):
        steps = case.work.steps(mode)
        limit_ms = sum(case.baseline.limit_ms(step) for step in steps)
        found.flags += audit.beats_limit(timing, limit_ms)
        claim = _on_current_baseline(case, _claim(case, timing, found))
        found.timings[mode] = audit.with_earned_walls(claim)
        found.flags += audit.unclocked(claim)
        found.flags += audit.launch_bound(claim) + audit.reference_faster(claim)
        if complaint := audit.complaint(claim):
            raise _rejected(complaint)


def _claim(case: Case, timing: Timing, found: Findings) -> audit.Claim:
    """What is claimed of one mode; those timed before it are in `found`."""
    excess_ms = audit.forward_excess_ms(found.timings, case.baseline)
    return audit.Claim(
        timing=timing,
        baseline=case.baseline,
        device=case.context.device,
        proven_bytes=case.work.proven * len(case.work.steps(timing.mode)),
        threads=case.context.settings.threads,
        forward_excess_ms=excess_ms if timing.mode == "backward" else 0.0,
    )


def _on_current_baseline(case: Case, claim: audit.Claim) -> audit.Claim:
    """The claim; where it is in doubt, or holds by little, beside the reference measured again, for
    the machine may have become slower since, or faster."""
    if not (audit.in_doubt(claim) or audit.close(claim)):
        return claim
    with case.context.quiet():
        known = baseline.measure_again(case.context, case.subject, case.baseline, claim.timing.mode)
    return dataclasses.replace(claim, baseline=known)


def _rejected(text: str) -> Ended:
    return Ended(verdict(Status.REJECTED, Phase.AUDIT, text))


def _not_exercised(text: str) -> Ended:
    return Ended(verdict(Status.NOT_EXERCISED, Phase.PROFILE, text))
