"""`lint`: which problems are fit to judge by, and a table of what is not.

The mutants and what becomes of them are in judge/fitness/mutants.py and judge/fitness/lint.py.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness import catalog, fit
from harness.config import Settings
from harness.errors import ProblemError
from harness.judge import device
from harness.judge.fitness import lint
from harness.judge.fitness.outcomes import DOUBTFUL, MEANING, Finding, Outcome
from harness.judge.reference import Reference, settle_heap
from harness.records import Problem
from harness.report.tables import one_line
from harness.shared import constants
from harness.shared.problem import Instance
from harness.source import read_problem
from harness.wording import counted

SIZE = "smoke"  # where a problem has it: large enough for means to average out


@dataclass(frozen=True, kw_only=True)
class Fitness:
    """One problem. `fault`: why it could not be examined at all."""

    problem: str
    size: str
    findings: tuple[Finding, ...] = ()
    fault: str = ""

    def fit(self, *, strict: bool) -> bool:
        """Whether it may be judged by; `strict`: also without any doubt."""
        bad = DOUBTFUL if strict else (Outcome.PASSES,)
        return not self.fault and not any(f.outcome in bad for f in self.findings)


def examine(names: Iterable[str], folder: Path, settings: Settings) -> Iterator[Fitness]:
    """The fitness of problems, by name or path, each as soon as it is known. Raises `RequestError`,
    `MachineError`."""
    chosen = device.choose(settings.device)
    try:
        for name in names:
            yield _examine(name, folder, settings, chosen.torch)
    finally:
        gc.unfreeze()  # what `settle_heap` froze: this process may be somebody's own


def _examine(name: str, folder: Path, settings: Settings, where: torch.device) -> Fitness:
    settle_heap()
    called, path = catalog.find_problem(name, folder)
    size = settings.size
    try:
        known = read_problem(called, path)
        dtype: torch.dtype = getattr(torch, settings.dtype)
        size = _size(size, known, dtype, where)
        instance = Instance(
            source=known.source, path=known.path, size=size, dtype=dtype, device=where
        )
        reference = Reference(instance, weights_seed=1, allow_tf32=settings.allow_tf32)
        findings = lint.lint(reference, settings)
    except ProblemError as error:
        return Fitness(problem=called, size=size, fault=str(error))
    except torch.OutOfMemoryError:
        text = "the reference and its float64 oracle do not fit the device; use a smaller --size"
        return Fitness(problem=called, size=size, fault=text)
    return Fitness(problem=called, size=size, findings=tuple(findings))


def _size(asked: str, known: Problem, dtype: torch.dtype, where: torch.device) -> str:
    """The size to examine it at. Raises `ProblemError`, or `RequestError` for one that it lacks."""
    if asked == "auto":
        return SIZE if SIZE in constants.sizes(known.source, known.path) else constants.FULL
    size = fit.settled(asked, known.source, known.path, dtype=dtype, device=where)
    constants.at_size(known.source, known.path, size)
    return size


def screen(fitness: Fitness, *, strict: bool) -> RenderableType:
    """One line for a problem, and the mutants that were not simply caught."""
    line = Text(_line(fitness, strict=strict))
    told = any(finding.outcome in MEANING for finding in fitness.findings)
    return Group(line, _table(fitness)) if told else line


def legend(found: Iterable[Fitness]) -> RenderableType | None:
    """What the outcomes that were told mean."""
    met = {finding.outcome for fitness in found for finding in fitness.findings}
    lines = [Text(f"{o.value}: {text}") for o, text in MEANING.items() if o in met]
    return Group(Text(""), *lines) if lines else None


def _line(fitness: Fitness, *, strict: bool) -> str:
    verdict = "fit" if fitness.fit(strict=strict) else "NOT FIT"
    start = f"{fitness.problem} ({fitness.size}): {verdict}"
    if fitness.fault:
        return f"{start}: {one_line(fitness.fault)}"
    counts = Counter(finding.outcome for finding in fitness.findings)
    told = ", ".join(f"{counts[o]} {o.value}" for o in Outcome if counts[o])
    return f"{start}: of {counted(len(fitness.findings), 'mutant')} {told}"


def _table(fitness: Fitness) -> Table:
    table = Table(box=None, padding=(0, 0, 0, 2))
    table.add_column("mutant (judged on)", overflow="fold")
    by_chance = any(finding.chance is not None for finding in fitness.findings)
    chance_of = ("chance",) if by_chance else ()
    for header in ("outcome", "caught", *chance_of, "error", "size", "ratio"):
        table.add_column(header, no_wrap=True)
    order = list(Outcome)
    for finding in sorted(fitness.findings, key=lambda f: -order.index(f.outcome)):
        if finding.outcome in MEANING:
            chance = (_number(finding.chance),) if by_chance else ()
            table.add_row(
                Text(f"{finding.mutant} ({finding.part})"),
                finding.outcome.value,
                f"{finding.caught} of {finding.trials}",
                *chance,
                _number(finding.error),
                _number(finding.size),
                _number(finding.error_ratio),
            )
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"
