"""A problem made ready for all of its solutions: reference, baseline, least work."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from harness.errors import ProblemError, no_cpu_memory
from harness.judge.checking.stages import Stage, sizes_to_check, without_misfits
from harness.judge.checking.survey import Survey, require_comparable, survey
from harness.judge.context import Context
from harness.judge.reference import Reference, settle_heap, settle_more
from harness.judge.subject import Subject
from harness.judge.timing import baseline, kept, limit
from harness.judge.timing.baseline import Baseline
from harness.records import Phase, Problem
from harness.shared.problem import Instance

Note = Callable[[str], None]
#: A reference is measured anew when it was so long ago: meanwhile the machine may have changed.
OPEN_S = 600.0


@dataclass(frozen=True, kw_only=True)
class Case:
    """A problem made ready for all of its solutions: reference, baseline, modes."""

    context: Context
    subject: Subject
    stages: tuple[Stage, ...]
    survey: Survey
    baseline: Baseline
    work: limit.Work

    @property
    def differentiable(self) -> bool:
        """Whether the backward is checked."""
        return Phase.BACKWARD in self.survey.phases

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
    settle_heap()
    subject = Subject(problem=problem, size=size)
    note("reference: loading")
    stages, surveyed, work = _examined(context, subject, note)
    settle_more()
    case = Case(
        context=context,
        subject=dataclasses.replace(subject, renewal=surveyed.renewal),
        stages=stages,
        survey=surveyed,
        baseline=Baseline(),
        work=work,
    )
    return dataclasses.replace(case, baseline=_measured(case, note)) if case.modes else case


def _examined(
    context: Context, subject: Subject, note: Note
) -> tuple[tuple[Stage, ...], Survey, limit.Work]:
    """What is checked at which sizes, what the reference allows, and the least work that it is."""
    problem, size = subject.problem, subject.size
    try:
        known = [
            Stage(
                size=name,
                reference=reference_of(context, problem, name, subject.weights_seed),
                trials=trials,
            )
            for name, trials in sizes_to_check(problem.source, size, context.settings)
        ]
        graded = known[-1].reference
        require_comparable(graded)
        note("reference: trying what it allows")
        surveyed = survey(known[0].reference, context.settings)
        stages, surveyed = without_misfits(known, surveyed)
        work = limit.count(graded, differentiable=bool(surveyed.outputs), probe=stages[0].reference)
    except RuntimeError as error:
        if not (isinstance(error, torch.OutOfMemoryError) or no_cpu_memory(error)):
            raise
        raise ProblemError(
            f"the reference does not fit the device at size {size}", path=problem.path
        ) from error
    graded.release()
    return stages, surveyed, work


def _measured(case: Case, note: Note) -> Baseline:
    """The reference alone, in each of the modes."""
    context, subject = case.context, case.subject
    try:
        with context.quiet():
            return kept.measure(
                context,
                subject,
                modes=case.modes,
                flops=case.work.forward.flops > 0,
                note=lambda text: note(f"reference: {text}"),
            )
    except baseline.BaselineError as error:
        raise ProblemError(
            f"the reference could not be measured: {error}", path=subject.problem.path
        ) from error


def reference_of(context: Context, problem: Problem, size: str, weights_seed: int) -> Reference:
    """The problem at `size` in the judge's process. Raises `ProblemError`."""
    settings = context.settings
    instance = Instance(
        source=problem.source,
        path=problem.path,
        size=size,
        dtype=getattr(torch, settings.dtype),
        device=context.device.torch,
    )
    return Reference(instance, weights_seed, allow_tf32=settings.allow_tf32)


class Opened:
    """`open_case` that keeps the last problem open, `seconds` at most: for solutions that come one
    after another. With `faults` it is kept that a problem could not be opened, too."""

    def __init__(self, *, seconds: float = OPEN_S, faults: bool = False) -> None:
        self._seconds, self._faults = seconds, faults
        self._last: tuple[tuple[Any, ...], float, Case | ProblemError] | None = None

    def __call__(
        self, context: Context, problem: Problem, size: str, note: Note = lambda text: None
    ) -> Case:
        """The case of a problem in this context. Raises `ProblemError`."""
        key = (problem, size, context.settings, context.device)
        found = self._known(key)
        if found is None:
            found = self._open(key, context, problem, size, note)
        if isinstance(found, ProblemError):
            raise found
        return dataclasses.replace(found, context=context)  # that of this evaluation's builds

    def close(self) -> None:
        """Let go of what is open."""
        self._last = None

    def _known(self, key: tuple[Any, ...]) -> Case | ProblemError | None:
        if self._last is None or self._last[0] != key:
            return None
        _, since, found = self._last
        if time.monotonic() - since > self._seconds:
            return None
        settle_heap()  # whoever runs this may have thawed it since
        return found

    def _open(
        self, key: tuple[Any, ...], context: Context, problem: Problem, size: str, note: Note
    ) -> Case | ProblemError:
        self.close()  # its memory first
        found: Case | ProblemError
        try:
            found = open_case(context, problem, size, note)
        except ProblemError as error:
            found = error
        if self._faults or isinstance(found, Case):
            self._last = (key, time.monotonic(), found)
        return found
