"""The first step of every solution: what its text decides, and its build, alone or not."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

from harness.config import Settings
from harness.judge.case import Note
from harness.judge.context import Context
from harness.judge.process import toolchain
from harness.judge.process.sandbox import Worker, WorkerCrash
from harness.judge.rows import Findings, row
from harness.judge.timing.baseline import Baseline
from harness.judge.verdicts import Ended, Progress, verdict, verdicts
from harness.records import Phase, Problem, Row, Solution, Status, Verdict
from harness.wording import counted


@dataclass(frozen=True, kw_only=True)
class Build:
    """What became of a build, and what it cost. `fault`: the kind of failure that the worker
    told of, if it did."""

    verdict: Verdict
    found: Findings
    total_s: float
    fault: str | None = None

    def row(
        self,
        context: Context,
        problem: Problem,
        solution: Solution,
        size: str = "",
        baseline: Baseline | None = None,
    ) -> Row:
        """The row of a solution that comes no further than this."""
        return row(
            context,
            problem,
            solution,
            self.verdict,
            size=size,
            baseline=baseline,
            found=self.found,
            total_s=self.total_s,
        )


def refusal(context: Context, solution: Solution) -> Verdict | None:
    """The verdict that the text alone decides, or None."""
    if solution.fault:
        return verdict(Status.CONTRACT_ERROR, Phase.FIND, solution.fault)
    if absent := toolchain.absent(solution.packages):
        return verdict(Status.SKIPPED, Phase.FIND, absent)
    if context.device.type not in solution.devices:
        needs = " or ".join(d.upper() for d in solution.devices)
        here = context.device.type.upper()
        return verdict(Status.SKIPPED, Phase.FIND, f"needs a {needs} device; this run is on {here}")
    return None


def alone(
    context: Context, problem: Problem, solution: Solution, note: Note = lambda text: None
) -> Build:
    """Build one solution and run nothing: nvcc without a GPU is enough."""
    began, found, phase = time.monotonic(), Findings(), Progress()
    name, fault = f"{problem.name}--{solution.name}", None
    try:
        with verdicts(phase, context, name, found):
            if solution.fault:
                raise Ended(verdict(Status.CONTRACT_ERROR, Phase.FIND, solution.fault))
            with context.worker(name, salt=solution.digest) as worker:
                order(context.settings, solution, worker, phase, found, note)
                count = len(found.builds)
                outcome = verdict(Status.BUILT, Phase.BUILD, f"{counted(count, 'extension')} built")
    except Ended as ended:
        outcome, fault = ended.verdict, getattr(ended.__cause__, "kind", None)
    total_s = time.monotonic() - began
    return Build(verdict=outcome, found=found, total_s=total_s, fault=fault)


def order(
    settings: Settings,
    solution: Solution,
    worker: Worker,
    phase: Progress,
    found: Findings,
    note: Note,
) -> None:
    """Have a worker execute the solution's file, which builds what it builds.

    Raises as `Worker.ask` does.
    """
    phase.enter(Phase.BUILD)
    note("build")
    with _processor_time(worker, found):
        answer = worker.ask(
            "build",
            timeout_s=settings.build_timeout_s,
            alone_s=settings.import_timeout_s,
            source=solution.source,
            file_name=solution.file_name,
        ).body["answer"]
    found.note_builds(answer.get("builds"))
    if solution.note:
        found.notes.append(solution.note)


@contextlib.contextmanager
def _processor_time(worker: Worker, found: Findings) -> Iterator[None]:
    """Keep what the worker and its compilers took of it, also where the build fails; nothing is
    kept where they are gone."""
    began_s = worker.cpu_s()
    try:
        yield
    finally:
        with contextlib.suppress(WorkerCrash):
            found.build_cpu_s = worker.cpu_s() - began_s
