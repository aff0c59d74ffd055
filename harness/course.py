"""From jobs to rows: which solution is next, and what has to be there for it.

Builds run ahead (`judge.ahead`), in the order asked. Of what is ready, solutions of the problem
that is at hand come first, then others in the order asked; so the device waits for a compiler
only where nothing else is left to do. Rows come as they are done, and are returned in the order
asked. The reference of a problem stays on the device until its last solution is done.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pandas as pd
import torch

from harness import fit, identity, results, samples
from harness.errors import ProblemError
from harness.judge import ahead, build, evaluate
from harness.judge.ahead import Builds
from harness.judge.case import Case, Note
from harness.judge.context import Context
from harness.records import Phase, Problem, Row, Solution, Status, Verdict
from harness.shared import problem


class Observer(Protocol):
    """Told what happens. `begin` precedes each solution's row, `progress` tells of the row to come
    how many there are then, and will be."""

    def begin(self, problem: str, solution: str, size: str) -> None: ...

    def note(self, text: str) -> None: ...

    def progress(self, done: int, total: int) -> None: ...

    def row(self, row: Row) -> None: ...

    def warn(self, text: str) -> None: ...


class Silent:
    """An observer that says nothing; its subclasses, only what they care for."""

    def begin(self, problem: str, solution: str, size: str) -> None: ...

    def note(self, text: str) -> None: ...

    def progress(self, done: int, total: int) -> None: ...

    def row(self, row: Row) -> None: ...

    def warn(self, text: str) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Job:
    """One problem and the solutions asked for. `fault`: why the problem cannot be used."""

    problem: Problem
    solutions: list[Solution] = field(default_factory=list)
    fault: ProblemError | None = None


@dataclass(kw_only=True)
class Work:
    """A job under its settings, and its reference while solutions are judged. `size` may be
    `fit` until the first of them."""

    job: Job
    context: Context
    size: str
    case: Case | None = None
    fault: ProblemError | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Item:
    """One row to come. Without a solution, the reference is judged as its own."""

    number: int
    work: Work
    solution: Solution | None


#: Makes a problem ready: `judge.case.open_case`, or what keeps the cases that it opened.
Opener = Callable[[Context, Problem, str, Note], Case]


class _Moot(Exception):
    """No solution is left that the reference would be needed for."""


class Course:
    """Evaluates `works`. With `done`, rows that are found there are taken from it."""

    def __init__(
        self,
        works: Sequence[Work],
        *,
        output: Path,
        observer: Observer,
        opener: Opener,
        done: pd.DataFrame | None = None,
        build_only: bool = False,
        self_check: bool = False,
    ) -> None:
        self._output, self._observer, self._opener = output, observer, opener
        self._done = None if done is None else results.Done(done)
        self._build_only = build_only
        pairs = [
            (work, solution)
            for work in works
            for solution in ([None] if self_check else work.job.solutions)
        ]
        self._pending = [
            Item(number=number, work=work, solution=solution)
            for number, (work, solution) in enumerate(pairs)
        ]
        self._builds = Builds(
            dict(self._tasks()), again=build_only, waits=lambda: self._note("waiting")
        )
        self._at_hand: Work | None = None

    def rows(self) -> list[Row]:
        """Evaluate all; each row is on disk before the next begins."""
        found: dict[int, Row] = {}
        total = len(self._pending)
        with self._builds:
            for work in {id(item.work): item.work for item in self._pending}.values():
                work.context = self._builds.beside(work.context)
            while self._pending:
                item = self._next()
                self._pending.remove(item)
                self._at_hand = item.work
                found[item.number] = row = self._row(item)
                self._observer.progress(len(found), total)
                self._observer.row(row)
                if not any(other.work is item.work for other in self._pending):
                    item.work.case = None
        return [found[number] for number in sorted(found)]

    def _tasks(self) -> Iterator[tuple[Item, ahead.Task]]:
        """What is worth building ahead, in the order asked."""
        for item in self._pending:
            solution, context = item.solution, item.work.context
            if solution is None:
                continue
            wanted = self._build_only or (
                ahead.needs_build(solution)
                and item.work.job.fault is None
                and build.refusal(context, solution) is None
                and self._resumed(item.work, solution) is None
            )
            if wanted:
                problem = item.work.job.problem
                yield item, ahead.Task(context=context, problem=problem, solution=solution)

    def _next(self) -> Item:
        """The next that is ready. What is waited for is told."""
        while True:
            ready = [item for item in self._pending if self._builds.ready(item)]
            if ready:
                return min(ready, key=lambda i: (i.work is not self._at_hand, i.number))
            if not self._opened_meanwhile():
                self._note("waiting")
                self._builds.wait()

    def _opened_meanwhile(self) -> bool:
        """Whether, with nothing ready, a reference could be made ready beside the builds. It is
        given up where the builds that it is for fail."""
        work = self._pending[0].work
        if not self._builds.apart or self._build_only or work.case or _fault(work):
            return False
        left = [item for item in self._pending if item.work is work]

        def note(text: str) -> None:
            self._note(text)
            if all(self._builds.ready(i) and self._builds.settled(i) for i in left):
                raise _Moot

        with contextlib.suppress(_Moot):
            self._open(work, note)
        return True

    def _row(self, item: Item) -> Row:
        work, context = item.work, item.work.context
        if not self._build_only:
            _fit(work)
        size = work.size
        solution = item.solution or identity.solution(
            work.job.problem, problem.FULL if _fault(work) else size
        )
        self._observer.begin(work.job.problem.name, solution.name, size)
        if self._build_only:
            built = self._builds.build_of(item)
            if built is not None:
                return built.row(context, work.job.problem, solution)
            return evaluate.build_only(context, work.job.problem, solution, self._note)
        row = self._resumed(work, solution)
        if row is not None:
            self._observer.note("taken from " + self._output.name)
            return row
        row = self._judged(item, solution)
        results.append(self._output, row)
        return row

    def _judged(self, item: Item, solution: Solution) -> Row:
        """The row of a solution that is not refused, nor its problem, nor its build."""
        work, context, found = item.work, item.work.context, item.work.job.problem
        refused = build.refusal(context, solution)
        settled = self._builds.settled(item)
        if refused is None and settled is None and work.case is None and _fault(work) is None:
            self._open(work, self._note)
        if fault := _fault(work):
            verdict = Verdict(status=Status.REFERENCE_ERROR, phase=Phase.LOAD, message=str(fault))
            return evaluate.unjudged(context, found, solution, verdict, work.size)
        if settled is not None:
            baseline = work.case.baseline if work.case else None
            return settled.row(context, found, solution, work.size, baseline)
        if work.case is None:
            assert refused is not None, "a case is opened for every solution that is not refused"
            return evaluate.unjudged(context, found, solution, refused, work.size)
        built = self._builds.build_of(item)
        row, timings = evaluate.evaluate(
            work.case, solution, self._note, built_s=built.found.build_s if built else None
        )
        if timings:
            name = samples.name_of(context.run_id, found.name, solution.name)
            samples.save(context.logs.parent / "raw", name, timings)
        return row

    def _open(self, work: Work, note: Note) -> None:
        """Make the problem ready. Where it cannot be, that is its `fault`."""
        _fit(work)
        if _fault(work):
            return
        try:
            work.case = self._opener(work.context, work.job.problem, work.size, note)
        except ProblemError as error:
            work.fault = error
        else:
            for text in work.case.baseline.notes:
                self._observer.warn(text)

    def _note(self, text: str) -> None:
        """Tell a step, and how far the builds are."""
        state = self._builds.state
        self._observer.note(text + (("; " if ":" in text else ": ") + state if state else ""))

    def _resumed(self, work: Work, solution: Solution) -> Row | None:
        """The row of an earlier run with the same sources, settings, size and device. Before the
        size that fits is known, any will do: such a solution is not worth building ahead."""
        if self._done is None:
            return None
        found = self._done.find(
            problem=work.job.problem.name,
            solution=solution.name,
            problem_digest=work.job.problem.digest,
            solution_digest=solution.digest,
            size=None if work.size == fit.FIT else work.size,
            dtype=work.context.settings.dtype,
            device_name=work.context.device.name,
            settings_digest=work.context.settings.digest,
        )
        return results.to_row(found) if found else None


def _fault(work: Work) -> ProblemError | None:
    return work.job.fault or work.fault


def _fit(work: Work) -> None:
    """Work the size out, where it is to fit the device."""
    if _fault(work):
        return
    found, context = work.job.problem, work.context
    dtype: torch.dtype = getattr(torch, context.settings.dtype)
    try:
        work.size = fit.settled(
            work.size, found.source, found.path, dtype=dtype, device=context.device.torch
        )
    except ProblemError as error:
        work.fault = error
