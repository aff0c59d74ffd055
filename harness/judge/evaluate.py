"""One solution, from file to row, straight down.

Every way out is a verdict: a step that cannot go on raises `Ended`, and what was measured
before it is kept.
"""

from __future__ import annotations

import dataclasses
import functools
import secrets
import time

from harness.judge import audit, baseline, build, checks
from harness.judge.baseline import Baseline
from harness.judge.case import Case, Note
from harness.judge.context import Context
from harness.judge.measure import time_mode
from harness.judge.peaks import peaks
from harness.judge.rows import Findings, mode_results, row
from harness.judge.sandbox import Worker, WorkerFault, claimed
from harness.judge.subject import prepare
from harness.judge.survey import Stage
from harness.judge.verdicts import Ended, Progress, verdict, verdicts
from harness.records import Phase, Problem, Row, Solution, Status, Timing, Verdict


def evaluate(
    case: Case,
    solution: Solution,
    note: Note = lambda text: None,
    *,
    built_s: float | None = None,
) -> tuple[Row, dict[str, Timing]]:
    """Judge one solution: its row, and the raw samples behind it. `built_s`: seconds that its
    builds took ahead of this, if they did."""
    began = time.monotonic()
    context, found = case.context, Findings()
    problem = case.subject.problem
    name = f"{problem.name}--{solution.name}"
    phase = Progress()
    try:
        with verdicts(phase, context, name, found):
            if refused := build.refusal(context, solution):
                raise Ended(refused)
            note("start")
            with context.worker(name, salt=solution.digest) as worker:
                _build(case, solution, worker, phase, found, note)
                outcome = _judge(case, worker, phase, found, note)
    except Ended as ended:
        outcome = ended.verdict
    if built_s is not None:
        found.build_s = built_s + (found.build_s or 0.0)
    found.check_s = phase.seconds(Phase.FORWARD, Phase.BACKWARD)
    found.measure_s = phase.seconds(Phase.TIME, Phase.MEMORY, Phase.PROFILE)
    modes = mode_results(case, found)
    if case.baseline.kept and any(m.compiled_speedup is not None for m in modes.values()):
        found.flags.append("compile_stored")
    result = row(
        context,
        problem,
        solution,
        outcome,
        size=case.subject.size,
        baseline=case.baseline,
        modes=modes,
        found=found,
        total_s=time.monotonic() - began,
    )
    return result, found.timings


def build_only(
    context: Context, problem: Problem, solution: Solution, note: Note = lambda text: None
) -> Row:
    """The row of a solution that is only built."""
    return build.alone(context, problem, solution, note).row(context, problem, solution)


def unjudged(
    context: Context, problem: Problem, solution: Solution, outcome: Verdict, size: str
) -> Row:
    """The row of a solution that was not run."""
    return row(context, problem, solution, outcome, size=size, found=Findings(), total_s=None)


def _build(
    case: Case,
    solution: Solution,
    worker: Worker,
    phase: Progress,
    found: Findings,
    note: Note,
) -> None:
    """Build, before the worker touches the device; then the problem and ModelNew."""
    settings = case.context.settings
    build.order(settings.build_timeout_s, solution, worker, phase, found, note)
    phase.enter(Phase.LOAD)
    note("load")
    load(case, worker, found, case.stages[0])


def load(case: Case, worker: Worker, found: Findings, stage: Stage) -> None:
    """The problem at the stage's size and ModelNew with the reference's weights."""
    settings = case.context.settings
    prepare(case.context, worker, dataclasses.replace(case.subject, size=stage.size))
    answer = worker.ask(
        "load",
        timeout_s=settings.build_timeout_s,
        outputs=case.survey.outputs,
        constants=case.survey.constants,
    ).body["answer"]
    found.note_builds(answer.get("builds"))
    note = str(answer.get("note", ""))
    if note and note not in found.notes:
        found.notes.append(note)


def _judge(case: Case, worker: Worker, phase: Progress, found: Findings, note: Note) -> Verdict:
    """Check, measure, audit. Raises `Ended`, or as `Worker.ask` does."""
    settings = case.context.settings
    judged = checks.Judged(
        worker=worker,
        settings=settings,
        reference=case.stages[0].reference,
        survey=case.survey,
        byte_limit=case.context.device.memory_bytes // 2,
        flags=found.flags,
    )
    backward = case.differentiable
    for stage in case.stages:
        if stage is not case.stages[0]:
            load(case, worker, found, stage)
        judged.reference = stage.reference
        tell = functools.partial(_tell, note, stage.size)
        phase.enter(Phase.FORWARD)
        judged.run(phase.now, trials=stage.trials, note=tell)
        if backward:
            phase.enter(Phase.BACKWARD)
            backward = _has_backward(judged, found, trials=stage.trials, note=tell)
        found.error_ratio = judged.worst_error_ratio
    modes = case.modes if backward else tuple(m for m in case.modes if m == "forward")
    _measure(case, judged, modes, phase, found, note)
    return _final_verdict(case, backward=backward, found=found)


def _tell(note: Note, size: str, text: str) -> None:
    note(f"check {text}, size {size}")


def _has_backward(judged: checks.Judged, found: Findings, *, trials: int, note: Note) -> bool:
    """Check the backward. False where the solution has none at all, or none that is right where
    none is asked for."""
    try:
        judged.run(Phase.BACKWARD, trials=trials, note=note)
    except WorkerFault as fault:
        if fault.kind == "no_backward":
            return False
        if judged.settings.require_backward or not judged.refused(fault):
            raise
        wrong: Exception = fault
    except checks.Mistake as mistake:
        if judged.settings.require_backward or mistake.status is not Status.WRONG_GRADIENT:
            raise
        wrong = mistake
    else:
        return True
    found.flags.append("backward_wrong")
    found.notes.append(f"only the forward was asked for; {wrong}")
    return False


def _measure(
    case: Case,
    judged: checks.Judged,
    modes: tuple[str, ...],
    phase: Progress,
    found: Findings,
    note: Note,
) -> None:
    """Times, memory, provenance; each claim is audited as it comes. Raises `Ended`."""
    settings, worker = case.context.settings, judged.worker
    phase.enter(Phase.FIND)  # waiting for builds to end is neither checking nor measuring
    with case.context.quiet():
        phase.enter(Phase.TIME)
        for mode in modes:
            timing = time_mode(
                worker,
                mode,
                device=case.context.device,
                settings=settings,
                renewal=case.subject.renewal,
                overhead_ms=case.baseline.overhead_ms,
                examiner=judged,
                note=note,
            )
            found.timings[mode] = timing
            if judged.wrong_reveal:
                raise Ended(
                    verdict(
                        Status.REJECTED,
                        Phase.AUDIT,
                        f"the output of a timed call ({mode}) is wrong: {judged.wrong_reveal}",
                    )
                )
            found.flags += [f"{mode}:{flag}" for flag in timing.flags]
    worker.ask("forget", timeout_s=settings.call_timeout_s)
    phase.enter(Phase.MEMORY)
    note("memory")
    training = "forward_backward" in modes
    seen = peaks(case.context, worker, "candidate", training=training)
    found.memory, flags = seen.beside(case.baseline.seen)
    found.flags += flags
    if complaint := seen.complaint(case.work.proven):
        raise Ended(verdict(Status.REJECTED, Phase.AUDIT, complaint))
    if settings.profile:
        phase.enter(Phase.PROFILE)
        note("profile")
        provenance(case, worker, modes, found)
    phase.enter(Phase.AUDIT)
    note("audit")
    found.flags += audit.moved_work(found.timings)
    for timing in found.timings.values():
        steps = case.work.steps(timing.mode)
        limit_ms = sum(case.baseline.limit_ms(step) for step in steps)
        found.flags += audit.beats_limit(timing, limit_ms)
        known = _current_baseline(case, timing)
        found.flags += audit.unclocked(timing.mode, known, case.context.device)
        claim = audit.Claim(
            timing=timing,
            baseline=known,
            device=case.context.device,
            proven_bytes=case.work.proven * len(steps),
            threads=case.context.settings.threads,
        )
        if complaint := audit.complaint(claim):
            raise Ended(verdict(Status.REJECTED, Phase.AUDIT, complaint))


def _current_baseline(case: Case, timing: Timing) -> Baseline:
    """The baseline, measured again where the machine may have become slower since."""
    claim = audit.Claim(timing=timing, baseline=case.baseline, device=case.context.device)
    if not audit.in_doubt(claim):
        return case.baseline
    with case.context.quiet():
        return baseline.measure_again(case.context, case.subject, case.baseline, timing.mode)


def provenance(case: Case, worker: Worker, modes: tuple[str, ...], found: Findings) -> None:
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
        raise Ended(
            verdict(
                Status.NOT_EXERCISED,
                Phase.PROFILE,
                f"a build failed and was swallowed, so no kernel of its own ran: "
                f"{failed[0]['error']}",
            )
        )
    if found.builds and idle:
        raise Ended(
            verdict(
                Status.NOT_EXERCISED,
                Phase.PROFILE,
                "right, but nothing of what it built ran: PyTorch did the work",
            )
        )
    if not found.builds and not share:
        found.flags.append("library_only")
        if case.context.settings.require_own_kernels:
            text = "right, but no kernel of its own ran, and --require-own-kernels is given"
            raise Ended(verdict(Status.NOT_EXERCISED, Phase.PROFILE, text))


def _final_verdict(case: Case, *, backward: bool, found: Findings) -> Verdict:
    settings, text = case.context.settings, ""
    if settings.quick and case.survey.outputs:
        text = "forward is right; a quick look leaves the backward out"
    elif case.differentiable and not backward and settings.require_backward:
        text = "forward is right; the output has no grad_fn, so there is no backward"
    if text and settings.require_backward:
        return verdict(Status.FORWARD_ONLY, Phase.BACKWARD, "; ".join([text, *found.notes]))
    return verdict(Status.PASS, Phase.DONE, "; ".join([*([text] if text else []), *found.notes]))
