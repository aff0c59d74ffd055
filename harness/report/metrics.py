"""fast_p, pass@k and geometric means over rows, as KernelBench's users report them.

    fast_p    share of the problems with a right solution more than p times as fast as the
              baseline (Ouyang et al. 2025, KernelBench, arXiv:2502.10517, section 3.3)
    pass@k    chance that one of k samples of a problem is right: 1 - C(n - c, k) / C(n, k) for
              c right ones of n, unbiased (Chen et al. 2021, arXiv:2107.03374, equation 1),
              averaged over the problems that have k samples
    geomean   geometric mean of the speedups of right solutions

Each once as it is usually counted, where `not_exercised` and flagged rows count, and once with
those taken out of the right ones (they stay in the denominators). Rows that say nothing of a
solution (`skipped`, `reference_error`, `harness_error`, `built`) and self-checks are left out.
Of training nothing is known, which is None, where the right ones had their forward timed alone.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness import catalog, identity
from harness.records import QUICK, Status

PlainRow = Mapping[str, Any]

THRESHOLDS = (0.0, 0.5, 0.8, 1.0, 1.5, 2.0)
#: What is reported -> the mode of timing that it is of.
MODES = {"forward": "forward", "training": "forward_backward"}
BASELINES = ("eager", "torch.compile")
SAMPLES = ("first", "best")
ALL = "all"
#: Verdicts that say nothing of the solution.
LEFT_OUT = (Status.SKIPPED, Status.REFERENCE_ERROR, Status.HARNESS_ERROR, Status.BUILT)
#: Flags that put the credit in doubt, of a mode (`forward:unstable`) that of this mode alone; the
#: others say how a figure came about.
DOUBTS = frozenset(
    {
        *("library_only", "beats_limit", "escaped", "varies", "backward_wrong"),
        *("not_profiled", "values_come_again", "unclocked"),
        *("timed_outputs_not_compared", "reference_not_finite", "unstable", "contended"),
    }
)


@dataclass(frozen=True, kw_only=True)
class Score:
    """A figure as it is usually counted, and without what is flagged or `not_exercised`."""

    counted: float | None
    clean: float | None


UNKNOWN = Score(counted=None, clean=None)


@dataclass(frozen=True, kw_only=True)
class Section:
    """Figures of one mode against one baseline, for one level (or `all`) on one device.

    `right` counts problems whose chosen sample is right; of those `flagged` and `not_exercised`
    are in doubt. `untimed` ones are right without a time: they count for p = 0 alone.
    """

    device_name: str
    dtype: str
    level: str
    mode: str
    baseline: str
    problems: int
    right: int | None
    flagged: int | None
    not_exercised: int | None
    untimed: int | None
    fast: dict[float, Score]
    mean: Score
    passes: dict[int, Score]
    pass_problems: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """All sections; `left_out`: how many rows, by why (a verdict that says nothing, say)."""

    sections: tuple[Section, ...]
    left_out: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class _Sample:
    """One row, for one mode and baseline. `asked`: whether it says if it is right in the mode."""

    problem: str
    solution: str
    right: bool
    asked: bool
    flagged: bool
    exercised: bool
    speedup: float | None

    @property
    def clean(self) -> bool:
        return self.right and self.exercised and not self.flagged


def measure(
    rows: Iterable[PlainRow],
    *,
    thresholds: Sequence[float] = THRESHOLDS,
    ks: Sequence[int] = (1,),
    samples: str = "first",
    problems: Iterable[str] = (),
) -> Metrics:
    """The metrics of rows as `results.plain` gives them.

    `samples`: the `first` of each problem counts, or its `best` (a right one before a wrong one,
    one without doubt before one with, then the fastest). `problems`: names that count
    as wrong where no row has them, or their level and number, as KernelBench's own analysis does.
    """
    rows = [row for row in rows if row["solution"] != identity.NAME]
    outside = {status.value for status in LEFT_OUT}
    left_out = Counter(str(row["status"]) for row in rows if row["status"] in outside)
    kept = [row for row in rows if row["status"] not in outside]
    met = {_place(row["problem"]) for row in rows}
    wanted = {row["problem"] for row in kept} | {p for p in problems if _place(p) not in met}
    sections = []
    for device, dtype in dict.fromkeys((str(r["device_name"]), str(r["dtype"])) for r in kept):
        own = [r for r in kept if (r["device_name"], r["dtype"]) == (device, dtype)]
        for level in _levels(wanted):
            names = {name for name in wanted if level in (ALL, _level(name))}
            for mode in MODES:
                for baseline in BASELINES:
                    found = [_sample(r, mode, baseline) for r in own if r["problem"] in names]
                    figures = _figures(found, len(names), thresholds, ks, samples)
                    section = Section(
                        device_name=device,
                        dtype=dtype,
                        level=level,
                        mode=mode,
                        baseline=baseline,
                        **figures,
                    )
                    sections.append(section)
    return Metrics(sections=tuple(sections), left_out=dict(left_out))


def fast(samples: Sequence[_Sample], p: float, problems: int) -> Score:
    """The share of `problems` with a right sample more than `p` times as fast.

    None where there are right ones and nobody timed any, as without a `torch.compile` baseline.
    """

    def share(chosen: list[_Sample]) -> float | None:
        speedups = [s.speedup for s in chosen if s.speedup is not None]
        if not problems or (p > 0 and chosen and not speedups):
            return None
        return (sum(s > p for s in speedups) if p > 0 else len(chosen)) / problems

    return Score(
        counted=share([s for s in samples if s.right]),
        clean=share([s for s in samples if s.clean]),
    )


def pass_at_k(n: int, c: int, k: int) -> float:
    """The chance that one of `k` samples, drawn of `n` with `c` right ones, is right."""
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def _figures(
    found: list[_Sample],
    problems: int,
    thresholds: Sequence[float],
    ks: Sequence[int],
    which: str,
) -> dict[str, Any]:
    chosen = _chosen(found, which)
    right = [s for s in chosen if s.right]
    timed, clean = (
        [s.speedup for s in right if s.speedup and (every or s.clean)] for every in (1, 0)
    )
    by_problem: dict[str, list[_Sample]] = {}
    for sample in found:
        by_problem.setdefault(sample.problem, []).append(sample)
    enough = {k: [group for group in by_problem.values() if len(group) >= k] for k in ks}
    if not any(s.right for s in found) and not all(s.asked for s in found):
        counts = dict.fromkeys(("right", "flagged", "not_exercised", "untimed"))
        return counts | {
            "problems": problems,
            "fast": dict.fromkeys(thresholds, UNKNOWN),
            "mean": UNKNOWN,
            "passes": dict.fromkeys(ks, UNKNOWN),
            "pass_problems": {k: len(groups) for k, groups in enough.items()},
        }
    return {
        "problems": problems,
        "right": len(right),
        "flagged": sum(s.flagged for s in right),
        "not_exercised": sum(not s.exercised for s in right),
        "untimed": sum(s.speedup is None for s in right),
        "fast": {p: fast(chosen, p, problems) for p in thresholds},
        "mean": Score(counted=_geometric(timed), clean=_geometric(clean)),
        "passes": {k: _passes(groups, k) for k, groups in enough.items()},
        "pass_problems": {k: len(groups) for k, groups in enough.items()},
    }


def _passes(groups: list[list[_Sample]], k: int) -> Score:
    def mean(right: Iterable[int]) -> float | None:
        chances = [pass_at_k(len(g), c, k) for g, c in zip(groups, right, strict=True)]
        return statistics.fmean(chances) if chances else None

    return Score(
        counted=mean(sum(s.right for s in group) for group in groups),
        clean=mean(sum(s.clean for s in group) for group in groups),
    )


def _geometric(speedups: Sequence[float | None]) -> float | None:
    values = [value for value in speedups if value]
    return statistics.geometric_mean(values) if values else None


def _chosen(found: list[_Sample], which: str) -> list[_Sample]:
    """One sample a problem: the first by number, else by name; or the best that is right."""

    def first(sample: _Sample) -> tuple[float, str]:
        number = catalog.sample_of(sample.solution)
        return (math.inf if number is None else number, sample.solution)

    def best(sample: _Sample) -> tuple[bool, bool, float]:
        return not sample.right, not sample.clean, -(sample.speedup or 0.0)

    ordered = sorted(found, key=first)
    if which == "best":
        ordered.sort(key=best)
    one: dict[str, _Sample] = {}
    for sample in ordered:
        one.setdefault(sample.problem, sample)
    return list(one.values())


def _sample(row: PlainRow, mode: str, baseline: str) -> _Sample:
    name, status = MODES[mode], Status(row["status"])
    exercised = status is not Status.NOT_EXERCISED
    credited = (Status.PASS, Status.FORWARD_ONLY) if mode == "forward" else (Status.PASS,)
    reference, solution = row[f"{name}_reference_ms"], row[f"{name}_solution_ms"]
    right = status in credited or not exercised
    flags = {flag.removeprefix(f"{name}:") for flag in str(row["flags"] or "").split()}
    asked = True
    if mode != "forward":  # who asks for a forward only gets a pass, or a quick look's verdict
        quick = status is Status.FORWARD_ONLY and QUICK in flags
        asked = not quick and not (right and solution is None)
        right = right and asked
    speedup = row[f"{name}_speedup" if baseline == "eager" else f"{name}_compile_speedup"]
    if speedup is None and not exercised and reference and solution:
        compiled = 1.0 if baseline == "eager" else row[f"{name}_compiled_speedup"]
        speedup = reference / solution / compiled if compiled else None
    return _Sample(
        problem=str(row["problem"]),
        solution=str(row["solution"]),
        right=right,
        asked=asked,
        flagged=bool(flags & DOUBTS),
        exercised=exercised,
        speedup=speedup if right else None,
    )


def _place(problem: str) -> object:
    """Level and number: published sets often have no more; the name, where it has not both."""
    place = catalog.level_of(problem), catalog.number_of(problem)
    return problem if None in place else place


def _level(problem: str) -> str | None:
    level = catalog.level_of(problem)
    return None if level is None else f"level{level}"


def _levels(problems: Iterable[str]) -> list[str]:
    return [*sorted({level for name in problems if (level := _level(name))}), ALL]
