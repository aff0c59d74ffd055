"""What a worker is given to run: a problem at one size, and what its timed values may be."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from harness.judge.context import Context
from harness.judge.process.sandbox import Worker
from harness.records import Problem
from harness.shared.mixing import Renewal


def _secret() -> int:
    return secrets.randbits(48)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A problem at `size`. `weights_seed`: of the reference's weights, which a solution gets too.
    `renewal`: how values of timed calls may be renewed."""

    problem: Problem
    size: str
    weights_seed: int = field(default_factory=_secret)
    renewal: Renewal = field(default_factory=Renewal)


def prepare(context: Context, worker: Worker, subject: Subject) -> None:
    """Give a worker its problem. Raises as `Worker.ask` does."""
    settings = context.settings
    worker.ask(
        "prepare",
        timeout_s=settings.call_timeout_s,
        problem_source=subject.problem.source,
        problem_path=subject.problem.path,
        size=subject.size,
        dtype=settings.dtype,
        device="cuda:0" if context.device.type == "cuda" else "cpu",
        weights_seed=subject.weights_seed,
        restored=subject.renewal.restored,
        mutates=subject.renewal.mutates,
        allow_tf32=settings.allow_tf32,
        threads=settings.threads,
    )
