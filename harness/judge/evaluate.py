"""One solution, from file to row, straight down.

Every way out is a verdict: a step that cannot go on raises `Ended`, and what was measured
before it is kept.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

import harness
from harness import results, stats
from harness.errors import ProblemError
from harness.judge import audit, baseline, checks, device, limit, toolchain
from harness.judge.baseline import Baseline
from harness.judge.context import Context
from harness.judge.measure import time_mode
from harness.judge.reference import Reference
from harness.judge.sandbox import (
    Worker,
    WorkerCrash,
    WorkerFault,
    WorkerLied,
    WorkerTimeout,
    claimed,
)
from harness.judge.survey import (
    Stage,
    Survey,
    require_comparable,
    sizes_to_check,
    survey,
    without_misfits,
)
from harness.problem import Instance
from harness.records import (
    Memory,
    ModeResult,
    Phase,
    Problem,
    Row,
    Solution,
    Status,
    Timing,
    Verdict,
)

#: What a worker's account of a failure means, whatever the phase.
_BY_KIND = {
    "contract": Status.CONTRACT_ERROR,
    "compile": Status.COMPILE_ERROR,
    "out_of_memory": Status.OUT_OF_MEMORY,
    "problem": Status.REFERENCE_ERROR,
    "machine": Status.HARNESS_ERROR,
    "no_backward": Status.FORWARD_ONLY,
}
Note = Callable[[str], None]


class Ended(Exception):
    """The evaluation ends here, with this verdict."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.message)
        self.verdict = verdict


@dataclass(frozen=True, kw_only=True)
class Case:
    """A problem made ready for all of its solutions: reference, baseline, modes."""

    context: Context
    problem: Problem
    size: str
    weights_seed: int
    stages: tuple[Stage, ...]
    survey: Survey
    baseline: Baseline
    work: limit.Work

    @property
    def differentiable(self) -> bool:
        """Whether a backward is asked for."""
        return bool(self.survey.outputs)

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes to time, in the order of the columns."""
        wanted = self.context.settings.modes
        return tuple(m for m in wanted if m == "forward" or self.differentiable)


def open_case(
    context: Context, problem: Problem, size: str, note: Note = lambda text: None
) -> Case:
    """Load the reference and measure it alone.

    Raises `ProblemError` where the reference is at fault: nobody else's solution is.
    """
    weights_seed = secrets.randbits(48)
    note("reference: loading")
    try:
        known = [
            Stage(
                size=name,
                reference=Reference(instance_of(context, problem, name), weights_seed),
                trials=trials,
            )
            for name, trials in sizes_to_check(problem.source, size, context.settings)
        ]
        graded = known[-1].reference
        require_comparable(graded)
        note("reference: trying what it allows")
        surveyed = survey(known[0].reference, context.settings)
        stages, surveyed = without_misfits(known, surveyed)
        work = limit.count(graded, differentiable=bool(surveyed.outputs))
    except torch.OutOfMemoryError as error:
        raise ProblemError(
            f"the reference does not fit the device at size {size}", path=problem.path
        ) from error
    graded.release()
    modes = tuple(m for m in context.settings.modes if m == "forward" or surveyed.outputs)
    try:
        measured = Baseline()
        if modes:
            measured = baseline.measure(
                context,
                problem,
                size=size,
                modes=modes,
                weights_seed=weights_seed,
                flops=work.forward.flops > 0,
                note=lambda text: note(f"reference: {text}"),
            )
    except baseline.BaselineError as error:
        raise ProblemError(
            f"the reference could not be measured: {error}", path=problem.path
        ) from error
    return Case(
        context=context,
        problem=problem,
        size=size,
        weights_seed=weights_seed,
        stages=stages,
        survey=surveyed,
        baseline=measured,
        work=work,
    )


def instance_of(context: Context, problem: Problem, size: str) -> Instance:
    """The problem at `size` in the judge's process. Raises `ProblemError`."""
    return Instance(
        source=problem.source,
        path=problem.path,
        size=size,
        dtype=getattr(torch, context.settings.dtype),
        device=context.device.torch,
    )


@dataclass(kw_only=True)
class Findings:
    """What is known so far about one solution."""

    timings: dict[str, Timing] = field(default_factory=dict)
    memory: Memory | None = None
    error_ratio: float | None = None
    own_share: float | None = None
    build_s: float | None = None
    builds: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    threads: int | None = None


def evaluate(
    case: Case, solution: Solution, note: Note = lambda text: None
) -> tuple[Row, dict[str, Timing]]:
    """Judge one solution: its row, and the raw samples behind it."""
    began = time.monotonic()
    context, found = case.context, Findings()
    name = f"{case.problem.name}--{solution.name}"
    phase = _PhaseKeeper()
    try:
        with _verdicts(phase, context, name, found):
            if refused := refusal(context, solution):
                raise Ended(refused)
            with context.worker(name, salt=solution.digest) as worker:
                _build(case, solution, worker, phase, found, note)
                verdict = _judge(case, worker, phase, found, note)
    except Ended as ended:
        verdict = ended.verdict
    result = row(
        context,
        case.problem,
        solution,
        verdict,
        size=case.size,
        baseline=case.baseline,
        modes=_modes(case, found),
        found=found,
        total_s=time.monotonic() - began,
    )
    return result, found.timings


def build_only(context: Context, problem: Problem, solution: Solution, note: Note) -> Row:
    """Build one solution and run nothing: nvcc without a GPU is enough."""
    began, found, phase = time.monotonic(), Findings(), _PhaseKeeper()
    name = f"{problem.name}--{solution.name}"
    try:
        with _verdicts(phase, context, name, found):
            if solution.fault:
                raise Ended(_verdict(Status.CONTRACT_ERROR, Phase.FIND, solution.fault))
            with context.worker(name, salt=solution.digest) as worker:
                _order_build(context.settings.build_timeout_s, solution, worker, phase, found, note)
                count = len(found.builds)
                verdict = _verdict(Status.BUILT, Phase.BUILD, f"{count} extension(s) built")
    except Ended as ended:
        verdict = ended.verdict
    total_s = time.monotonic() - began
    return row(context, problem, solution, verdict, size="", found=found, total_s=total_s)


# --- the steps --------------------------------------------------------------------------------


def refusal(context: Context, solution: Solution) -> Verdict | None:
    """The verdict that the text alone decides, or None."""
    if solution.fault:
        return _verdict(Status.CONTRACT_ERROR, Phase.FIND, solution.fault)
    if absent := toolchain.absent(solution.packages):
        return _verdict(Status.SKIPPED, Phase.FIND, absent)
    if context.device.type not in solution.devices:
        needs = " or ".join(d.upper() for d in solution.devices)
        here = context.device.type.upper()
        return _verdict(
            Status.SKIPPED, Phase.FIND, f"needs a {needs} device; this run is on {here}"
        )
    return None


def unjudged(
    context: Context, problem: Problem, solution: Solution, verdict: Verdict, size: str
) -> Row:
    """The row of a solution that was not run."""
    return row(context, problem, solution, verdict, size=size, found=Findings(), total_s=None)


def _build(
    case: Case,
    solution: Solution,
    worker: Worker,
    phase: _PhaseKeeper,
    found: Findings,
    note: Note,
) -> None:
    """Build, before the worker touches the device; then the problem and ModelNew."""
    settings = case.context.settings
    _order_build(settings.build_timeout_s, solution, worker, phase, found, note)
    phase.now = Phase.LOAD
    note("load")
    load(case, worker, found, case.stages[0])


def _order_build(
    timeout_s: float,
    solution: Solution,
    worker: Worker,
    phase: _PhaseKeeper,
    found: Findings,
    note: Note,
) -> None:
    phase.now = Phase.BUILD
    note("build")
    suffix = solution.path.rsplit("/", 1)[-1].rsplit(".", 1)[0] + ".py"
    answer = worker.ask(
        "build", timeout_s=timeout_s, source=solution.source, file_name=suffix
    ).body["answer"]
    _note_builds(found, answer.get("builds"))
    if solution.note:
        found.notes.append(solution.note)


def load(case: Case, worker: Worker, found: Findings, stage: Stage) -> None:
    """The problem at the stage's size and ModelNew with the reference's weights."""
    settings = case.context.settings
    baseline.prepare(
        case.context, worker, case.problem, size=stage.size, weights_seed=case.weights_seed
    )
    answer = worker.ask(
        "load", timeout_s=settings.build_timeout_s, outputs=case.survey.outputs
    ).body["answer"]
    _note_builds(found, answer.get("builds"))
    note = str(answer.get("note", ""))
    if note and note not in found.notes:
        found.notes.append(note)


def _note_builds(found: Findings, claim: Any) -> None:
    """Keep the builds that a worker lists. Raises `WorkerLied`."""
    with claimed():
        builds = [dict(build) for build in claim]
        seconds = sum(float(build["seconds"]) for build in builds)
    found.builds = builds or found.builds
    found.build_s = seconds if builds else found.build_s


def _judge(case: Case, worker: Worker, phase: _PhaseKeeper, found: Findings, note: Note) -> Verdict:
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
        phase.now = Phase.FORWARD
        judged.run(phase.now, trials=stage.trials, note=tell)
        if backward:
            phase.now = Phase.BACKWARD
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
        raise
    except checks.Mistake as mistake:
        if judged.settings.require_backward or mistake.status is not Status.WRONG_GRADIENT:
            raise
        found.flags.append("backward_wrong")
        found.notes.append(f"only the forward was asked for; {mistake}")
        return False
    return True


def _measure(
    case: Case,
    judged: checks.Judged,
    modes: tuple[str, ...],
    phase: _PhaseKeeper,
    found: Findings,
    note: Note,
) -> None:
    """Times, memory, provenance; each claim is audited as it comes. Raises `Ended`."""
    settings, worker = case.context.settings, judged.worker
    phase.now = Phase.TIME
    for mode in modes:
        timing = time_mode(
            worker,
            mode,
            device=case.context.device,
            settings=settings,
            overhead_ms=case.baseline.overhead_ms,
            reveal=judged.reveal,
            note=note,
        )
        found.timings[mode] = timing
        if judged.wrong_reveal:
            raise Ended(
                _verdict(
                    Status.REJECTED,
                    Phase.AUDIT,
                    f"the output of a timed call ({mode}) is wrong: {judged.wrong_reveal}",
                )
            )
        found.flags += [f"{mode}:{flag}" for flag in timing.flags]
    worker.ask("forget", timeout_s=settings.call_timeout_s)
    phase.now = Phase.MEMORY
    note("memory")
    training = "forward_backward" in modes
    found.memory = baseline.peaks(settings, worker, "candidate", training=training)
    if settings.profile:
        phase.now = Phase.PROFILE
        note("profile")
        provenance(case, worker, modes, found)
    phase.now = Phase.AUDIT
    found.flags += audit.moved_work(found.timings)
    for timing in found.timings.values():
        steps = case.work.steps(timing.mode)
        limit_ms = sum(case.baseline.limit_ms(step) for step in steps)
        if limit_ms > timing.solution_ms:
            found.flags.append(f"{timing.mode}:{audit.BEATS_LIMIT}")
        claim = audit.Claim(
            timing=timing,
            baseline=_current_baseline(case, timing),
            device=case.context.device,
            proven_bytes=case.work.proven * len(steps),
        )
        if complaint := audit.complaint(claim):
            raise Ended(_verdict(Status.REJECTED, Phase.AUDIT, complaint))


def _current_baseline(case: Case, timing: Timing) -> Baseline:
    """The baseline, measured again where the machine may have become slower since."""
    claim = audit.Claim(timing=timing, baseline=case.baseline, device=case.context.device)
    if audit.reference_times(claim) is None:
        return case.baseline
    return baseline.measure_again(
        case.context,
        case.problem,
        case.baseline,
        size=case.size,
        mode=timing.mode,
        weights_seed=case.weights_seed,
    )


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
    found.own_share = None if share is None else round(share, 4)
    failed = [b for b in found.builds if b.get("error")]
    idle = answer.get("native_calls") == 0 or share == 0
    if failed and (idle or len(failed) == len(found.builds)):
        raise Ended(
            _verdict(
                Status.NOT_EXERCISED,
                Phase.PROFILE,
                f"a build failed and was swallowed, so no kernel of its own ran: "
                f"{failed[0]['error']}",
            )
        )
    if found.builds and idle:
        raise Ended(
            _verdict(
                Status.NOT_EXERCISED,
                Phase.PROFILE,
                "right, but nothing of what it built ran: PyTorch did the work",
            )
        )
    if not found.builds and not share:
        found.flags.append("library_only")


def _final_verdict(case: Case, *, backward: bool, found: Findings) -> Verdict:
    message = "; ".join(found.notes)
    if case.differentiable and not backward and case.context.settings.require_backward:
        text = "forward is right; the output has no grad_fn, so there is no backward"
        return _verdict(Status.FORWARD_ONLY, Phase.BACKWARD, "; ".join([text, *found.notes]))
    return _verdict(Status.PASS, Phase.DONE, message)


# --- from failures to verdicts ----------------------------------------------------------------


@dataclass(kw_only=True)
class _PhaseKeeper:
    now: Phase = Phase.FIND


@contextlib.contextmanager
def _verdicts(phase: _PhaseKeeper, context: Context, name: str, found: Findings) -> Iterator[None]:
    """Turn what a worker did into `Ended`."""
    try:
        yield
    except WorkerFault as fault:
        with contextlib.suppress(WorkerLied):
            _note_builds(found, fault.builds)
        with context.log(name).open("a", errors="replace") as log:
            log.write(fault.text)
        status = _BY_KIND.get(fault.kind)
        if status is None:
            status = Status.LOAD_ERROR if phase.now is Phase.BUILD else Status.RUNTIME_ERROR
        where = Phase.BUILD if status is Status.COMPILE_ERROR else phase.now
        raise Ended(_verdict(status, where, str(fault))) from fault
    except checks.Mistake as mistake:
        raise Ended(_verdict(mistake.status, phase.now, str(mistake))) from mistake
    except WorkerTimeout as error:
        raise Ended(_verdict(Status.TIMEOUT, phase.now, f"{phase.now.value}: {error}")) from error
    except WorkerCrash as error:
        raise Ended(_verdict(Status.CRASH, phase.now, f"{phase.now.value}: {error}")) from error
    except WorkerLied as error:
        raise Ended(
            _verdict(Status.REJECTED, phase.now, f"the answer does not hold: {error}")
        ) from error
    except ProblemError as error:
        raise Ended(_verdict(Status.REFERENCE_ERROR, phase.now, str(error))) from error
    except baseline.BaselineError as error:
        text = f"the reference could not be measured again: {error}"
        raise Ended(_verdict(Status.HARNESS_ERROR, phase.now, text)) from error
    except torch.OutOfMemoryError as error:
        text = "no memory left for the judge's reference beside the worker; use a smaller --size"
        raise Ended(_verdict(Status.HARNESS_ERROR, phase.now, text)) from error


def _verdict(status: Status, phase: Phase, message: str) -> Verdict:
    return Verdict(status=status, phase=phase, message=" ".join(message.split())[:1000])


# --- the row ----------------------------------------------------------------------------------


def _modes(case: Case, found: Findings) -> dict[str, ModeResult]:
    """Columns of each mode measured."""
    return {
        mode: mode_result(timing, case.baseline, case.work.steps(mode))
        for mode, timing in found.timings.items()
    }


def mode_result(timing: Timing, base: Baseline, steps: tuple[limit.Step, ...]) -> ModeResult:
    """One mode's columns from its samples and the work that it is at least."""
    interval, compiled = timing.interval, base.best_compiled(timing.mode)
    over = stats.quotient(interval, compiled.interval) if compiled else None
    limit_ms = sum(base.limit_ms(step) for step in steps) or None
    return ModeResult(
        reference_ms=timing.reference_ms,
        solution_ms=timing.solution_ms,
        speedup=interval.ratio,
        low=interval.low,
        high=interval.high,
        compile_speedup=over.ratio if over else None,
        compile_low=over.low if over else None,
        compile_high=over.high if over else None,
        compiled_speedup=compiled.interval.ratio if compiled else None,
        limit_fraction=limit_ms / timing.solution_ms if limit_ms else None,
        reference_limit_fraction=limit_ms / timing.reference_ms if limit_ms else None,
        wall_speedup=timing.wall_speedup,
        noise=base.noise(timing.mode),
        epochs=len(timing.epochs),
        dropped=timing.dropped,
    )


def row(
    context: Context,
    problem: Problem,
    solution: Solution,
    verdict: Verdict,
    *,
    size: str,
    found: Findings,
    total_s: float | None,
    baseline: Baseline | None = None,
    modes: dict[str, ModeResult] | None = None,
) -> Row:
    """The row of one solution."""
    settings = context.settings
    result = Row(
        run_id=context.run_id,
        time=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        problem=problem.name,
        problem_digest=problem.digest,
        solution=solution.name,
        solution_digest=solution.digest,
        size=size,
        dtype=settings.dtype,
        settings_digest=settings.digest,
        harness_version=harness.__version__,
        schema_version=results.SCHEMA_VERSION,
        environment=device.environment(
            context.device,
            threads=settings.threads or torch.get_num_threads(),
            allow_tf32=settings.allow_tf32,
        ),
        verdict=verdict,
        log=str(context.log(f"{problem.name}--{solution.name}")),
        modes=modes or {},
        memory=found.memory,
        reference_memory=baseline.memory if baseline else None,
        error_ratio=found.error_ratio,
        own_share=found.own_share,
        isolation=context.isolation,
        build_s=found.build_s,
        total_s=total_s,
        flags=tuple(dict.fromkeys(found.flags)),
    )
    if verdict.status is Status.SKIPPED:
        result = dataclasses.replace(result, log="")
    return result
