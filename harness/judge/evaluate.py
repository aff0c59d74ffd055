"""One solution, from file to row, straight down.

Every way out is a verdict: a step that cannot go on raises `Ended`, and what was measured
before it is kept.
"""

from __future__ import annotations

import dataclasses
import functools
import time

from harness.judge import build, performance
from harness.judge.case import Case, Note
from harness.judge.checking import checks
from harness.judge.checking.stages import Stage
from harness.judge.context import Context
from harness.judge.process.sandbox import Worker, WorkerFault
from harness.judge.rows import Findings, mode_results, row
from harness.judge.subject import prepare
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
                backward = _judge(case, worker, phase, found, note)
            performance.hold(case, phase, found, note)
            outcome = _final_verdict(case, backward=backward, found=found)
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
    build.order(case.context.settings, solution, worker, phase, found, note)
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
        alone_s=settings.import_timeout_s,
        outputs=case.survey.outputs,
        constants=case.survey.constants,
    ).body["answer"]
    found.note_builds(answer.get("builds"))
    note = str(answer.get("note", ""))
    if note and note not in found.notes:
        found.notes.append(note)


def _judge(case: Case, worker: Worker, phase: Progress, found: Findings, note: Note) -> bool:
    """Check and measure; whether there is a backward. Raises `Ended`, or as `Worker.ask` does."""
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
    performance.measure(case, judged, modes, phase, found, note)
    return backward


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


def _final_verdict(case: Case, *, backward: bool, found: Findings) -> Verdict:
    settings, text = case.context.settings, ""
    if settings.quick and case.survey.outputs:
        text = "forward is right; a quick look leaves the backward out"
    elif case.differentiable and not backward and settings.require_backward:
        text = "forward is right; the output has no grad_fn, so there is no backward"
    if text and settings.require_backward:
        return verdict(Status.FORWARD_ONLY, Phase.BACKWARD, "; ".join([text, *found.notes]))
    return verdict(Status.PASS, Phase.DONE, "; ".join([*([text] if text else []), *found.notes]))
