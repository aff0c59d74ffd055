"""The reference where no solution is loaded: its times, its memory, and `torch.compile`.

A baseline worker runs the same orders as a solution's, with the compiled reference in the
solution's place. Its reference times are what the judge holds a solution's claim against.
Where nothing is compiled the reference is timed against itself: an A/A test.
"""

from __future__ import annotations

import dataclasses
import functools
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from harness.config import Settings
from harness.judge.context import Context
from harness.judge.measure import time_mode
from harness.judge.sandbox import Worker, WorkerCrash, WorkerFault, WorkerLied, WorkerTimeout
from harness.records import Memory, Problem, Timing

EAGER = "eager"  # the reference against itself
_FAILURES = (WorkerFault, WorkerTimeout, WorkerCrash, WorkerLied)


class BaselineError(Exception):
    """The reference cannot be run. The message is one line."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """Per mode, the timing of each baseline against eager; memory; what the device can do.

    `timings` maps (baseline, mode) to a Timing in which the baseline is the "solution".
    `bandwidth` holds (share of bytes written, bytes per second) by rising share.
    `notes` says of each `torch.compile` mode that failed how it did.
    """

    timings: dict[tuple[str, str], Timing] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    bandwidth: tuple[tuple[float, float], ...] = ()
    notes: tuple[str, ...] = ()

    def reference_ms(self, mode: str) -> list[float]:
        """The reference's times of one call, by each baseline measured beside it."""
        return [t.reference_ms for (_, m), t in self.timings.items() if m == mode]

    def limit_ms(self, read: int, written: int) -> float | None:
        """The least time to move this many bytes, at the bandwidth measured for such a mix."""
        if not self.bandwidth or read + written == 0:
            return None
        shares, rates = zip(*self.bandwidth, strict=True)
        seconds_per_byte = np.interp(written / (read + written), shares, [1 / r for r in rates])
        return float(seconds_per_byte) * (read + written) * 1e3

    def best_compiled(self, mode: str) -> Timing | None:
        """The fastest `torch.compile` of the mode."""
        timings = [
            t for (name, m), t in self.timings.items() if m == mode and not name.startswith(EAGER)
        ]
        return max(timings, key=lambda t: t.interval.ratio, default=None)


def measure(
    context: Context,
    problem: Problem,
    *,
    size: str,
    modes: tuple[str, ...],
    weights_seed: int,
    note: Callable[[str], None] = lambda text: None,
) -> Baseline:
    """Measure everything about the reference alone. Raises `BaselineError`."""
    settings = context.settings
    timings: dict[tuple[str, str], Timing] = {}
    notes: list[str] = []
    memory: Memory | None = None
    bandwidth: tuple[tuple[float, float], ...] = ()
    for name in (*settings.compile_baseline, EAGER):
        if name == EAGER and timings:
            break
        try:
            with context.worker(f"{problem.name}--{name}", salt="baseline", trusted=True) as worker:
                prepare(context, worker, problem, size=size, weights_seed=weights_seed)
                if memory is None:
                    bandwidth = _bandwidth(settings, worker)
                    memory = _memory(settings, worker, modes)
                worker.ask("compile", timeout_s=settings.call_timeout_s, mode=name)
                for mode in modes:
                    timings[name, mode] = time_mode(
                        worker,
                        mode,
                        cuda=context.device.type == "cuda",
                        settings=settings,
                        note=functools.partial(_note, note, name),
                    )
        except _FAILURES as error:
            if name == EAGER:
                raise BaselineError(str(error)) from error
            notes.append(f"torch.compile ({name}) failed: {error}")
            timings = {key: timing for key, timing in timings.items() if key[0] != name}
    return Baseline(
        timings=timings,
        memory=memory or Memory(),
        bandwidth=bandwidth,
        notes=tuple(notes),
    )


def _note(note: Callable[[str], None], name: str, text: str) -> None:
    note(f"{name}, {text}")


def measure_again(
    context: Context, problem: Problem, known: Baseline, *, size: str, mode: str, weights_seed: int
) -> Baseline:
    """`known` with one more timing of eager in `mode`: what the machine gives now.

    Raises `BaselineError`.
    """
    name = f"{EAGER} again"
    try:
        with context.worker(f"{problem.name}--{EAGER}", salt="baseline", trusted=True) as worker:
            prepare(context, worker, problem, size=size, weights_seed=weights_seed)
            worker.ask("compile", timeout_s=context.settings.call_timeout_s, mode=EAGER)
            timing = time_mode(
                worker, mode, cuda=context.device.type == "cuda", settings=context.settings
            )
    except _FAILURES as error:
        raise BaselineError(str(error)) from error
    return dataclasses.replace(known, timings=known.timings | {(name, mode): timing})


def prepare(
    context: Context, worker: Worker, problem: Problem, *, size: str, weights_seed: int
) -> None:
    """Give a worker its problem. Raises as `Worker.ask` does."""
    settings = context.settings
    worker.ask(
        "prepare",
        timeout_s=settings.call_timeout_s,
        problem_source=problem.source,
        problem_path=problem.path,
        size=size,
        dtype=settings.dtype,
        device="cuda:0" if context.device.type == "cuda" else "cpu",
        weights_seed=weights_seed,
        allow_tf32=settings.allow_tf32,
        threads=settings.threads,
    )


def _bandwidth(settings: Settings, worker: Worker) -> tuple[tuple[float, float], ...]:
    answer = worker.ask("calibrate", timeout_s=settings.call_timeout_s).body["answer"]
    return tuple((float(share), float(rate)) for share, rate in answer["bandwidth"])


def _memory(settings: Settings, worker: Worker, modes: tuple[str, ...]) -> Memory:
    """Peaks of the reference for inference, and for training where a backward is timed."""
    return peaks(settings, worker, "reference", training="forward_backward" in modes)


def peaks(settings: Settings, worker: Worker, side: str, *, training: bool) -> Memory:
    """Peak memory of one side. Raises as `Worker.ask` does."""
    if not settings.measure_memory:
        return Memory()
    found = {}
    for mode in ("forward", "forward_backward") if training else ("forward",):
        answer = worker.ask(
            "memory",
            timeout_s=settings.call_timeout_s,
            side=side,
            mode=mode,
            seed=secrets.randbits(48),
        ).body["answer"]
        found[mode] = float(answer["peak_mib"])
    return Memory(
        inference_peak_mib=found["forward"], training_peak_mib=found.get("forward_backward")
    )
