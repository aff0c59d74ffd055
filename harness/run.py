"""From a request to rows: what is evaluated, on which device, and where rows go.

Nothing here prints: an `Observer` is told.
"""

from __future__ import annotations

import dataclasses
import datetime
import gc
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from harness import ROOT, catalog, fit, footprint, results, source
from harness.config import Settings
from harness.course import Course, Work
from harness.course import Job as Job
from harness.course import Observer as Observer
from harness.course import Opener as Opener
from harness.course import Silent as Silent
from harness.errors import MachineError, ProblemError, RequestError
from harness.judge import ahead, device, reference
from harness.judge.case import open_case
from harness.judge.checking.survey import MEMORY_SHARE
from harness.judge.context import Context
from harness.judge.process import isolation, toolchain
from harness.records import Problem, Row
from harness.shared import constants, problem
from harness.shared.numerics import numerics

SMOKE = "smoke"
UNGRADED = ("odd", "huge")  # sizes for checks: never what `auto` means


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to evaluate. Without `problem`, all problems of the folder; with `solution` then those
    that have one of that name."""

    settings: Settings
    problem: str | None = None
    solution: str | None = None
    problem_dir: Path = ROOT / "problems"
    solution_dir: Path = ROOT / "solutions"
    results_dir: Path = ROOT / "results"
    cache_dir: Path = ROOT / ".cache"
    output: Path | None = None
    fresh: bool = False
    build_only: bool = False
    require_backward: bool = False
    """Also of suites that ask for a forward only (`level1/...`, as KernelBench's do)."""
    self_check: bool = False
    """Judge each reference as its own solution, in place of the solutions."""

    @property
    def folder(self) -> Path:
        """Where raw/ and logs/ are: beside the rows."""
        return self.output.parent if self.output else self.results_dir


def find(request: Request) -> list[Job]:
    """The jobs of a request. Raises `RequestError` for an unknown name."""
    if request.problem:
        found = [catalog.find_problem(request.problem, request.problem_dir)]
    else:
        found = list(catalog.find_problems(request.problem_dir).items())
    if not found:
        raise RequestError(f"no problem files in {request.problem_dir}")
    jobs = [_job(request, name, path) for name, path in found]
    if not request.self_check and not any(job.solutions for job in jobs):
        if request.solution:
            raise RequestError(
                f"no problem has a solution {request.solution!r} in {request.solution_dir}: with "
                "--all, --solution is a name"
            )
        raise RequestError(f"no solutions in {request.solution_dir}, for any of the problems")
    return jobs


def _job(request: Request, name: str, path: Path) -> Job:
    fault: ProblemError | None = None
    try:
        found = source.read_problem(name, path)
        problem.sizes(found.source, found.path)
    except ProblemError as error:
        fault = error
        found = Problem(name=name, path=str(path), source="", digest="")
    if request.self_check:
        return Job(problem=found, fault=fault)
    if request.solution and not request.problem:
        known = catalog.find_solutions(request.solution_dir, found)
        solutions = [solution for solution in known if solution.name == request.solution]
    elif request.solution:
        solutions = [catalog.load_solution(request.solution, request.solution_dir, found)]
    else:
        solutions = catalog.find_solutions(request.solution_dir, found)
    if not solutions and request.problem:
        raise RequestError(
            f"problem {found.name} has no solutions in {request.solution_dir / found.name}; "
            "add a file there or name one with --solution"
        )
    return Job(problem=found, solutions=solutions, fault=fault)


def execute(request: Request, observer: Observer, opener: Opener | None = None) -> list[Row]:
    """Evaluate everything; each row is on disk before the next solution begins.

    `opener` makes problems ready, and may keep them (`judge.case.Opened`). Raises `RequestError` or
    `MachineError` before any work.
    """
    jobs = find(request)
    try:
        with numerics(allow_tf32=request.settings.allow_tf32):
            return run_jobs(request, make_context(request), jobs, observer, opener or open_case)
    finally:
        gc.unfreeze()  # what `open_case` froze: this process may be somebody's own


def run_jobs(
    request: Request, context: Context, jobs: list[Job], observer: Observer, opener: Opener
) -> list[Row]:
    """`execute` for jobs that have been found, on a device that has been chosen."""
    require(context, jobs, build_only=request.build_only)
    output = request.output or results.file_for(context.device.name, request.results_dir)
    if output.is_dir():
        raise RequestError(f"{output} is a folder: name a CSV file with --output")
    for place, file in ((output, output), (context.logs, context.logs / "any")):
        if not _can_write(file):
            raise MachineError(f"{place} cannot be written; choose another with --output")
    if not _can_write(context.cache / "any"):
        raise MachineError(f"{context.cache} cannot be written; make it a writable folder")
    works = [
        Work(
            job=job,
            context=context.on(_settings_for(request, job.problem)),
            size=size_of(request.settings, context, job),
        )
        for job in jobs
    ]
    course = Course(
        works,
        output=output,
        observer=observer,
        opener=opener,
        done=None if request.fresh or not output.exists() else results.read(output),
        build_only=request.build_only,
        self_check=request.self_check,
    )
    return course.rows()


def make_context(request: Request) -> Context:
    """Choose the device and find the tools. Raises `MachineError` or `RequestError`."""
    settings = request.settings
    isolation.choose(settings.sandbox)
    if not request.build_only:
        reference.get_ready()
    return Context(
        settings=settings,
        device=device.builder() if request.build_only else device.choose(settings.device),
        tools=toolchain.find(),
        run_id=new_run_id(),
        cache=request.cache_dir,
        logs=request.folder / "logs",
    )


def new_run_id() -> str:
    """Never given twice: the time, and something drawn."""
    stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%S")
    return f"{stamp}-{secrets.token_hex(3)}"


def require(context: Context, jobs: list[Job], *, build_only: bool = False) -> None:
    """Compilers, for what will be built here. Raises `MachineError`."""
    texts = [
        s.source
        for job in jobs
        for s in job.solutions
        if ahead.needs_build(s) and (build_only or context.device.type in s.devices)
    ]
    if texts:
        cuda = any("cuda_sources" in text for text in texts)
        toolchain.require_builds(context.tools, cuda=cuda)


def _can_write(file: Path) -> bool:
    """Whether a file can be written there; its folder is made."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return os.access(file if file.exists() else file.parent, os.W_OK)
    except OSError:
        return False


def size_of(settings: Settings, context: Context, job: Job) -> str:
    """The size to judge at. `auto` is, on a CPU, `smoke` where the problem has it; on a GPU, the
    largest that fits. The memory in all decides, not what is free: a run that is taken up again
    must come to the same size.

    Raises `RequestError` for a size, or a constant, that the problem does not have.
    """
    if job.fault is not None:
        return ""
    if settings.size == fit.FIT:
        return settings.size
    if constants.STATED.fullmatch(settings.size):
        constants.at_size(job.problem.source, job.problem.path, settings.size)
        return settings.size
    known = problem.sizes(job.problem.source, job.problem.path)
    if settings.size == "auto":
        if context.device.type == "cpu":
            return SMOKE if SMOKE in known else problem.FULL
        return footprint.kept_largest_size(
            context.cache / "sizes",
            job.problem.source,
            job.problem.path,
            sizes=tuple(size for size in known if size not in UNGRADED),
            dtype=settings.dtype,
            limit_bytes=MEMORY_SHARE * context.device.memory_bytes,
        )
    if settings.size not in known:
        names = ", ".join(known)
        raise RequestError(f"{job.problem.path} has no size {settings.size!r}; it has {names}")
    return settings.size


def _settings_for(request: Request, found: Problem) -> Settings:
    """A suite that asks for a forward only gets what it asks for."""
    if request.require_backward or catalog.level_of(found.name) is None:
        return request.settings
    return dataclasses.replace(request.settings, require_backward=False)
