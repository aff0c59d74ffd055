"""From a request to rows: what is evaluated, in which order, and where rows go.

Nothing here prints: an `Observer` is told.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch

from harness import (
    catalog,
    constants,
    fit,
    footprint,
    identity,
    problem,
    results,
    samples,
    source,
)
from harness.config import Settings
from harness.errors import MachineError, ProblemError, RequestError
from harness.judge import device, evaluate, isolation, toolchain
from harness.judge.case import Case, open_case
from harness.judge.context import Context
from harness.judge.survey import MEMORY_SHARE
from harness.records import Phase, Problem, Row, Solution, Status, Verdict

ROOT = Path(__file__).resolve().parent.parent
SMOKE = "smoke"
UNGRADED = ("odd", "huge")  # sizes for checks: never what `auto` means


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to evaluate. Without `problem`, all problems of the folder."""

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


class Observer(Protocol):
    """Told what happens. `begin` precedes each solution's rows."""

    def begin(self, problem: str, solution: str, size: str) -> None: ...

    def note(self, text: str) -> None: ...

    def row(self, row: Row) -> None: ...

    def warn(self, text: str) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Job:
    """One problem and the solutions asked for. `fault`: why the problem cannot be used."""

    problem: Problem
    solutions: list[Solution] = field(default_factory=list)
    fault: ProblemError | None = None


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
    if request.solution:
        solutions = [catalog.load_solution(request.solution, request.solution_dir, found)]
    else:
        solutions = catalog.find_solutions(request.solution_dir, found)
    if not solutions and request.problem:
        raise RequestError(
            f"problem {found.name} has no solutions in {request.solution_dir / found.name}; "
            "add a file there or name one with --solution"
        )
    return Job(problem=found, solutions=solutions, fault=fault)


def execute(request: Request, observer: Observer) -> list[Row]:
    """Evaluate everything; each row is on disk before the next solution begins.

    Raises `RequestError` or `MachineError` before any work.
    """
    jobs = find(request)
    return run_jobs(request, make_context(request), jobs, observer, open_case)


#: Makes a problem ready: `judge.case.open_case`, or what keeps the cases that it opened.
Opener = Callable[[Context, Problem, str, Callable[[str], None]], Case]


def run_jobs(
    request: Request, context: Context, jobs: list[Job], observer: Observer, opener: Opener
) -> list[Row]:
    """`execute` for jobs that have been found, on a device that has been chosen."""
    require(context, jobs, build_only=request.build_only)
    output = request.output or results.file_for(context.device.name, request.results_dir)
    if output.is_dir() or not _can_write(output):
        raise MachineError(f"{output} cannot be written; choose another with --output")
    for folder in (context.cache, context.logs):
        if not _can_write(folder / "any"):
            raise MachineError(f"{folder} cannot be written; make it a writable folder")
    sizes = [size_of(request.settings, context, job) for job in jobs]
    rows: list[Row] = []
    for job, size in zip(jobs, sizes, strict=True):
        own = context.on(_settings_for(request, job.problem))
        for row in _evaluate(request, own, job, size, output, observer, opener):
            observer.row(row)
            rows.append(row)
    return rows


def make_context(request: Request) -> Context:
    """Choose the device and find the tools. Raises `MachineError` or `RequestError`."""
    settings = request.settings
    isolation.choose(settings.sandbox)
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
        if build_only or context.device.type in s.devices
    ]
    if any("load_inline" in text or "cpp_extension" in text for text in texts):
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

    Raises `RequestError` for a size that the problem does not have.
    """
    if job.fault is not None:
        return ""
    if settings.size == fit.FIT or constants.STATED.fullmatch(settings.size):
        return settings.size
    known = problem.sizes(job.problem.source, job.problem.path)
    if settings.size == "auto":
        if context.device.type == "cpu":
            return SMOKE if SMOKE in known else problem.FULL
        return footprint.largest_size(
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


def _evaluate(
    request: Request,
    context: Context,
    job: Job,
    size: str,
    output: Path,
    observer: Observer,
    opener: Opener,
) -> Iterable[Row]:
    case: Case | None = None
    size, fault = _sized(request, context, job, size)
    solutions = job.solutions
    if request.self_check:
        solutions = [identity.solution(job.problem, problem.FULL if fault else size)]
    for solution in solutions:
        observer.begin(job.problem.name, solution.name, size)
        if request.build_only:
            yield evaluate.build_only(context, job.problem, solution, observer.note)
            continue
        row = None if request.fresh else _resumed(context, job.problem, solution, size, output)
        if row is not None:
            observer.note("taken from " + output.name)
            yield row
            continue
        if case is None and fault is None and _needs_device(context, solution):
            try:
                case = opener(context, job.problem, size, observer.note)
            except ProblemError as error:
                fault = error
            else:
                for text in case.baseline.notes:
                    observer.warn(text)
        row = _one(context, job.problem, solution, size, case, fault, observer)
        results.append(output, row)
        yield row


def _settings_for(request: Request, found: Problem) -> Settings:
    """A suite that asks for a forward only gets what it asks for."""
    if request.require_backward or catalog.level_of(found.name) is None:
        return request.settings
    return dataclasses.replace(request.settings, require_backward=False)


def _sized(
    request: Request, context: Context, job: Job, size: str
) -> tuple[str, ProblemError | None]:
    """The size, worked out where it is to fit the device, and why the problem cannot be used."""
    if job.fault is not None or size != fit.FIT or request.build_only:
        return size, job.fault
    dtype: torch.dtype = getattr(torch, context.settings.dtype)
    found, where = job.problem, context.device.torch
    try:
        return fit.fitted(found.source, found.path, dtype=dtype, device=where), None
    except ProblemError as error:
        return size, error


def _needs_device(context: Context, solution: Solution) -> bool:
    return evaluate.refusal(context, solution) is None


def _one(
    context: Context,
    problem: Problem,
    solution: Solution,
    size: str,
    case: Case | None,
    fault: ProblemError | None,
    observer: Observer,
) -> Row:
    if fault is not None:
        verdict = Verdict(status=Status.REFERENCE_ERROR, phase=Phase.LOAD, message=str(fault))
        return evaluate.unjudged(context, problem, solution, verdict, size)
    if case is None:
        refused = evaluate.refusal(context, solution)
        assert refused is not None, "a case is opened for every solution that is not refused"
        return evaluate.unjudged(context, problem, solution, refused, size)
    row, timings = evaluate.evaluate(case, solution, observer.note)
    if timings:
        name = samples.name_of(context.run_id, problem.name, solution.name)
        samples.save(context.logs.parent / "raw", name, timings)
    return row


def _resumed(
    context: Context, problem: Problem, solution: Solution, size: str, output: Path
) -> Row | None:
    """The row of an earlier run with the same sources, settings, size and device."""
    if not output.exists():
        return None
    found = results.find_done(
        results.read(output),
        problem=problem.name,
        solution=solution.name,
        problem_digest=problem.digest,
        solution_digest=solution.digest,
        size=size,
        dtype=context.settings.dtype,
        device_name=context.device.name,
        settings_digest=context.settings.digest,
    )
    return results.to_row(found) if found else None
