"""What was found out about a solution, and the row that it becomes."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Any

import torch

import harness
from harness import results, stats
from harness.judge import device
from harness.judge.case import Case
from harness.judge.context import Context
from harness.judge.process.sandbox import claimed
from harness.judge.timing import limit
from harness.judge.timing.baseline import Baseline
from harness.records import (
    QUICK,
    Memory,
    ModeResult,
    Problem,
    Row,
    Solution,
    Timing,
    Verdict,
)

MAX_S = 1e6  # of a build


@dataclass(kw_only=True)
class Findings:
    """What is known so far about one solution."""

    timings: dict[str, Timing] = field(default_factory=dict)
    memory: Memory | None = None
    error_ratio: float | None = None
    own_share: float | None = None
    build_s: float | None = None
    build_cpu_s: float | None = None
    check_s: float | None = None
    measure_s: float | None = None
    builds: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)

    def note_builds(self, claim: Any) -> None:
        """Keep the builds that a worker lists. Raises `WorkerLied`."""
        with claimed():
            builds = [dict(build) for build in claim]
            seconds = sum(_seconds(build["seconds"]) for build in builds)
            full = any(build.get("headers") == "torch" for build in builds)
        self.builds = builds or self.builds
        self.build_s = seconds if builds else self.build_s
        if full and "full_headers" not in self.flags:
            self.flags.append("full_headers")


def _seconds(claim: Any) -> float:
    """Raises `ValueError` for what is no span of time."""
    if not 0 <= float(claim) < MAX_S:
        raise ValueError(f"{claim!r} s")
    return float(claim)


def mode_results(case: Case, found: Findings) -> dict[str, ModeResult]:
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
    memory_ms, compute_ms = (sum(part) for part in zip(*map(base.limits_ms, steps), strict=True))
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
        least_bytes=sum(step.read + step.written for step in steps),
        least_flops=sum(step.flops for step in steps),
        bound=("memory" if memory_ms >= compute_ms else "compute") if limit_ms else None,
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
    settings, name = context.settings, f"{problem.name}--{solution.name}"
    return Row(
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
        log=context.log_in_row(name) if context.log(name).is_file() else "",
        modes=modes or {},
        memory=found.memory,
        reference_memory=baseline.memory if baseline else None,
        error_ratio=found.error_ratio,
        own_share=found.own_share,
        isolation=context.isolation,
        settings=settings.told,
        build_s=found.build_s,
        check_s=found.check_s,
        measure_s=found.measure_s,
        total_s=total_s,
        flags=tuple(dict.fromkeys([*([QUICK] if settings.quick else []), *found.flags])),
    )
