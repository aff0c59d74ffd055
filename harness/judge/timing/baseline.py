"""The reference where no solution is loaded: its times, its memory, and `torch.compile`.

A baseline worker runs the same orders as a solution's, with the reference once more, eager or
compiled, in the solution's place. Its reference times are what the judge holds a solution's
claim against. Eager against eager is an A/A test: how far it comes to lie from 1 is the noise
of this device at this duration.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from harness import stats
from harness.config import Settings
from harness.judge.context import Context
from harness.judge.process.sandbox import FAILURES, Worker
from harness.judge.subject import Subject, prepare
from harness.judge.timing import clock
from harness.judge.timing.limit import Step
from harness.judge.timing.measure import time_mode
from harness.judge.timing.peaks import Peaks, peaks
from harness.records import Memory, Timing

EAGER = "eager"  # the reference against itself
EPOCHS_KNOWN = 2  # of eager, where its noise is known of an earlier run


class BaselineError(Exception):
    """The reference cannot be run. The message is one line."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """Per mode, the timing of each baseline against eager; memory; what the device can do.

    `timings` maps (baseline, mode) to a Timing in which the baseline is the "solution".
    `bandwidth` holds (share of bytes written, bytes per second) by rising share, `flops_per_s`
    the rate of a large matrix product, `overhead_ms` what an event pair costs.
    `seen` is what that worker held of memory, as seen from outside. `noises`: by mode, what an
    earlier run has found for `noise`.
    `notes` says of each `torch.compile` mode that failed how it did. `kept` names the baselines
    that an earlier run has measured (`judge/timing/kept.py`).
    """

    timings: dict[tuple[str, str], Timing] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    bandwidth: tuple[tuple[float, float], ...] = ()
    flops_per_s: float | None = None
    overhead_ms: float = 0.0
    notes: tuple[str, ...] = ()
    kept: frozenset[str] = frozenset()
    seen: Peaks = field(default_factory=Peaks)
    noises: Mapping[str, float] = field(default_factory=dict)

    def of_this_run(self, mode: str) -> list[Timing]:
        """The timings that claims about `mode` may be held against."""
        return [t for (name, m), t in self.timings.items() if m == mode and name not in self.kept]

    def host_bound(self, mode: str) -> bool:
        """Whether the reference is launched too slowly to be held back behind a gate (CUDA)."""
        return any(
            clock.HOST_BOUND in timing.flags
            for (name, timed), timing in self.timings.items()
            if timed == mode and name.startswith(EAGER)
        )

    def stopwatches(self, mode: str) -> list[Timing]:
        """The timing of eager that was made by the judge's clock as well, the newest of them;
        nothing, where there is none."""
        found = [
            t
            for (name, m), t in self.timings.items()
            if m == mode and name.startswith(EAGER) and t.stopwatch_ms is not None
        ]
        return found[-1:]

    def limit_ms(self, step: Step) -> float:
        """The least time of a step: its bytes or its FLOPs, whichever takes longer."""
        return max(self.limits_ms(step))

    def limits_ms(self, step: Step) -> tuple[float, float]:
        """The least times of a step's bytes at the bandwidth measured for such a mix, and of its
        FLOPs at the rate of a large matrix product. 0 if unknown."""
        moved = step.read + step.written
        memory_s = 0.0
        if self.bandwidth and moved:
            shares, rates = zip(*self.bandwidth, strict=True)
            memory_s = moved * np.interp(step.written / moved, shares, [1 / r for r in rates])
        compute_s = step.flops / self.flops_per_s if self.flops_per_s else 0.0
        return 1e3 * float(memory_s), 1e3 * compute_s

    def noise(self, mode: str) -> float | None:
        """How far an A/A test came to lie from 1, its interval included; None without one, and of
        fewer than three epochs, whose interval is as wide as it is rarely wrong."""
        if mode in self.noises:
            return self.noises[mode]
        for (name, timed), timing in self.timings.items():
            if name == EAGER and timed == mode and len(timing.epochs) > EPOCHS_KNOWN:
                interval = timing.interval
                return max(abs((interval.high or 1) - 1), abs((interval.low or 1) - 1))
        return None

    def best_compiled(self, mode: str) -> Timing | None:
        """The fastest `torch.compile` of the mode."""
        timings = [
            t for (name, m), t in self.timings.items() if m == mode and not name.startswith(EAGER)
        ]
        return max(timings, key=lambda t: t.interval.ratio, default=None)


def measure(
    context: Context,
    subject: Subject,
    *,
    modes: tuple[str, ...],
    flops: bool,
    known: bool = False,
    note: Callable[[str], None] = lambda text: None,
) -> Baseline:
    """Measure everything about the reference alone; where the rest is `known`, eager. `flops`:
    whether the rate of a matrix product matters.

    Raises `BaselineError`.
    """
    course = _Baselines(
        context=context, subject=subject, modes=modes, flops=flops, known=known, note=note
    )
    stats.get_ready()
    notes: list[str] = []
    for name in (EAGER, *(() if known else _compile_modes(context))):
        try:
            course.measure(name)
        except FAILURES as error:
            if name == EAGER:
                raise BaselineError(str(error)) from error
            notes.append(f"torch.compile ({name}) failed: {error}")
    return dataclasses.replace(course.found, notes=tuple(notes))


@dataclass(kw_only=True)
class _Baselines:
    """The baselines measured so far."""

    context: Context
    subject: Subject
    modes: tuple[str, ...]
    flops: bool
    known: bool
    note: Callable[[str], None] = lambda text: None
    found: Baseline = field(default_factory=Baseline)

    def measure(self, name: str, *, again: bool = False) -> None:
        """One baseline in a worker of its own; its timings are kept only if all modes work.
        `again`: for what the machine gives now, in as many epochs as a solution's."""
        settings, kind = self.context.settings, self.context.device.type
        timings: dict[tuple[str, str], Timing] = {}
        label = f"{self.subject.problem.name}.{name}"  # "--" is before a solution's name
        with self.context.worker(label, salt="baseline", trusted=True) as worker:
            prepare(self.context, worker, self.subject)
            if name == EAGER and not again:
                self._calibrate(worker)
                settings = self._few_epochs()
            worker.ask("compile", timeout_s=settings.call_timeout_s, mode=name)
            for mode in self.modes:
                timings[f"{name} again" if again else name, mode] = time_mode(
                    worker,
                    mode,
                    device=self.context.device,
                    settings=settings,
                    renewal=self.subject.renewal,
                    overhead_ms=self.found.overhead_ms,
                    clocked=name == EAGER,  # no claim is held against another's
                    warm=bool(timings) or (self.known and not again and kind == "cuda"),
                    asks=lambda timing: name == EAGER and self._asks(timing),
                    note=lambda text: self.note(f"{name}, {text}"),
                )
        self.found = dataclasses.replace(self.found, timings=self.found.timings | timings)

    def _asks(self, timing: Timing) -> bool:
        """Whether claims may need to know how long eager keeps the device busy: not for a quick
        look, where they are asked for it only once the clock speaks against them."""
        return not self.context.settings.quick and clock.blind(timing, self.context.device.type)

    def _few_epochs(self) -> Settings:
        """So many as an A/A test needs; on a GPU fewer, where none is made: eager is only to be
        told from what it took, or from what is claimed of it, by a percent or more."""
        settings = self.context.settings
        count = settings.epochs_min
        if self.context.device.type == "cuda" and (self.known or settings.quick):
            count = min(count, EPOCHS_KNOWN)
        return dataclasses.replace(settings, epochs_min=count, epochs_max=count)

    def _calibrate(self, worker: Worker) -> None:
        settings, rates = self.context.settings, self.context.rates
        wanted = not settings.quick and not self.known
        answer = worker.ask(
            "calibrate",
            timeout_s=settings.call_timeout_s,
            bandwidth=wanted and not rates.bandwidth,
            flops=wanted and self.flops and rates.flops_per_s is None,
        ).body["answer"]
        if answer["bandwidth"]:
            rates.bandwidth = tuple((float(part), float(r)) for part, r in answer["bandwidth"])
        rates.flops_per_s = answer["flops_per_s"] or rates.flops_per_s
        training = "forward_backward" in self.modes
        seen = peaks(self.context, worker, "reference", training=training)
        self.found = dataclasses.replace(
            self.found,
            bandwidth=rates.bandwidth,
            flops_per_s=rates.flops_per_s if self.flops else None,
            overhead_ms=float(answer["overhead_ms"]),
            memory=seen.memory,
            seen=seen,
        )


def _compile_modes(context: Context) -> tuple[str, ...]:
    """On a CPU max-autotune only takes longer to compile: it tunes GPU kernels."""
    wanted = context.settings.compile_baseline
    if context.device.type == "cpu" and "default" in wanted:
        return tuple(mode for mode in wanted if mode != "max-autotune")
    return wanted


def measure_again(context: Context, subject: Subject, known: Baseline, mode: str) -> Baseline:
    """`known` with one more timing of eager in `mode`: what the machine gives now.

    Raises `BaselineError`.
    """
    course = _Baselines(
        context=context, subject=subject, modes=(mode,), flops=False, known=True, found=known
    )
    try:
        course.measure(EAGER, again=True)
    except FAILURES as error:
        raise BaselineError(str(error)) from error
    return course.found
