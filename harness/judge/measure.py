"""Orders timing, epoch by epoch, and decides when it is enough.

The worker measures; what it answers is a claim. After an epoch the judge may ask for the
output of any timed call of it, chosen then.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.config import Settings
from harness.judge.sandbox import Worker, WorkerLied
from harness.records import Block, Epoch, Timing

MIN_CUDA_UNIT_MS = 0.03  # twenty null kernels under an event pair (TIMING.md, constant)
MIN_CPU_UNIT_MS = 0.5
MAX_SETS = 32
LONG_CPU_UNIT_MS = 20.0
ESCAPED_FLAG = "escaped"
#: Host noise makes single units look so; a trimmed mean moves only if a quarter of them do.
MAX_ESCAPED_SHARE = 0.25

#: (worker, mode, seed, grad_seed, unit, call) of one timed call whose output is to be looked at.
Reveal = Callable[[Worker, str, int, int, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One epoch: `sets` distinct input sets, each called `repeat` times a unit, `blocks` blocks."""

    sets: int
    repeat: int
    blocks: int
    epochs_min: int
    epochs_max: int
    budget_s: float


def plan(ms: dict[str, float], *, cuda: bool, settings: Settings) -> Plan:
    """How to measure two sides that take about `ms` milliseconds a call."""
    slow, fast = max(ms.values()), min(ms.values())
    wanted = MIN_CUDA_UNIT_MS if cuda else MIN_CPU_UNIT_MS
    calls = max(1, math.ceil(wanted / max(fast, 1e-6)))
    sets = min(calls, MAX_SETS)
    repeat = 1 if cuda else math.ceil(min(calls, 4096) / sets)
    unit_ms = slow * sets * repeat
    if cuda:
        blocks = round(min(12, max(3, 500 / (4 * unit_ms))))
    else:
        blocks = 12 if unit_ms <= LONG_CPU_UNIT_MS else 3
    return Plan(
        sets=sets,
        repeat=repeat,
        blocks=blocks,
        epochs_min=settings.epochs_min,
        epochs_max=settings.epochs_max,
        budget_s=settings.mode_budget_s if cuda else settings.cpu_mode_budget_s,
    )


def time_mode(
    worker: Worker,
    mode: str,
    *,
    cuda: bool,
    settings: Settings,
    reveal: Reveal | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> Timing:
    """Time one mode until its interval is narrow enough or its budget is spent.

    `reveal` is called with (worker, mode, seed, grad_seed, unit, call) for one timed call per
    epoch that the judge chooses after the epoch has ended. Raises as `Worker.ask` does, and
    whatever `reveal` raises.
    """
    warm = worker.ask(
        "warm_up",
        timeout_s=settings.call_timeout_s,
        mode=mode,
        seed=secrets.randbits(48),
        calls=10 if cuda else 5,
        seconds=0.3 if cuda else 0.1,
    ).body["answer"]
    ms = {name: _positive(value) for name, value in dict(warm["ms"]).items()}
    steps = plan(ms, cuda=cuda, settings=settings)
    flags = ("host_bound",) if warm["host_bound"] else ()
    epochs: list[Epoch] = []
    began = time.monotonic()
    while True:
        epoch, escaped = _epoch(worker, mode, steps, settings, reveal)
        epochs.append(epoch)
        if escaped and ESCAPED_FLAG not in flags:
            flags = (*flags, ESCAPED_FLAG)
        timing = Timing(
            mode=mode,
            calls=steps.sets * steps.repeat,
            epochs=tuple(epochs),
            minima=not cuda,
            flags=flags,
        )
        note(f"{mode}: epoch {len(epochs)}")
        if enough(timing, steps, settings, time.monotonic() - began):
            return timing


def enough(timing: Timing, steps: Plan, settings: Settings, spent_s: float) -> bool:
    """Whether to stop: narrow enough from `epochs_min` on, or out of epochs or time.

    At least two epochs are always measured: one carries no interval.
    """
    count = len(timing.epochs)
    if count < 2:
        return False
    if count >= steps.epochs_max or spent_s > steps.budget_s:
        return True
    return count >= steps.epochs_min and timing.interval.half_width <= settings.half_width


def _epoch(
    worker: Worker, mode: str, steps: Plan, settings: Settings, reveal: Reveal | None
) -> tuple[Epoch, bool]:
    seeds = [secrets.randbits(48) for _ in range(steps.sets)]
    grad_seeds = [secrets.randbits(48) for _ in range(steps.sets)]
    began = time.monotonic()
    answer = worker.ask(
        "epoch",
        timeout_s=settings.call_timeout_s,
        mode=mode,
        seeds=seeds,
        grad_seeds=grad_seeds,
        repeat=steps.repeat,
        blocks=steps.blocks,
        order_seed=secrets.randbits(48),
    ).body["answer"]
    wall_s = time.monotonic() - began
    blocks = tuple(_block(block) for block in answer["blocks"])
    if len(blocks) != steps.blocks:
        raise WorkerLied(f"{len(blocks)} blocks were answered, {steps.blocks} ordered")
    if reveal is not None:
        kept = int(answer["kept"])
        if kept < 1:
            raise WorkerLied("no output of a timed call was kept")
        unit, call = secrets.randbelow(kept), secrets.randbelow(steps.sets)
        reveal(worker, mode, seeds[call], grad_seeds[call], unit, call)
    return Epoch(blocks=blocks, wall_s=wall_s), _number(answer["escaped_share"]) > MAX_ESCAPED_SHARE


def _block(answer: dict[str, Any]) -> Block:
    reference, candidate = answer["reference"], answer["candidate"]
    if len(reference) != 2 or len(candidate) != 2:
        raise WorkerLied("a block has two units of each side")
    return Block(
        reference_ms=(_positive(reference[0]), _positive(reference[1])),
        solution_ms=(_positive(candidate[0]), _positive(candidate[1])),
    )


def _number(value: Any) -> float:
    """A finite number. Raises `WorkerLied`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise WorkerLied(f"{value!r} is no time")
    return float(value)


def _positive(value: Any) -> float:
    number = _number(value)
    if number <= 0:
        raise WorkerLied(f"{value!r} is no time")
    return number
