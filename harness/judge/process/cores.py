"""Which cores builds get, and how they stay out of the way of what is timed.

With a GPU and enough cores, judge and workers keep some to themselves. Elsewhere no build runs
while something is timed (`Gate`): builds are waited for, none is stopped half-way, so that its
deadline means what it says.

Not covered: what cores share all the same, as caches, memory bandwidth and power.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness import cpu
from harness.config import Settings
from harness.judge.context import compilers_at_once
from harness.judge.device import Device

MIN_CORES = 8  # of which some can be reserved; with fewer, builds make way for timing


class Gate:
    """Either builds run or something is timed. What is to be timed waits for the builds under
    way and is not kept waiting by later ones. `waits` is called before it does. `builds`: how
    many run."""

    def __init__(self, waits: Callable[[], None] = lambda: None) -> None:
        self._waits = waits
        self._changed = threading.Condition()
        self.builds = self._timing = 0

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """Around a build."""
        with self._changed:
            self._changed.wait_for(lambda: not self._timing)
            self.builds += 1
        try:
            yield
        finally:
            with self._changed:
                self.builds -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Around what is timed."""
        try:
            with self._changed:
                self._timing += 1
                if self.builds:
                    self._waits()
                self._changed.wait_for(lambda: not self.builds)
            yield
        finally:
            with self._changed:
                self._timing -= 1
                self._changed.notify_all()


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Who gets what. `reserved`: the cores of judge and workers; None: all share all cores, and
    builds make way for timing. `builds` at once have `jobs` compilers each."""

    builders: tuple[int, ...]
    reserved: tuple[int, ...] | None
    builds: int
    jobs: int


def shares(device: Device, settings: Settings) -> Shares:
    """What this machine has for builds: by cores, and by memory (`compilers_at_once`)."""
    cores = sorted(os.sched_getaffinity(0))
    reserved: set[int] = set()
    if device.type == "cuda" and cpu.cores() >= MIN_CORES:
        for core in cores:
            if len(reserved) < settings.reserved_cores:
                reserved |= cpu.siblings(core) & set(cores)  # never half of a physical core
    if len(reserved) == len(cores):
        reserved.clear()
    free = max(1, min(len(cores), cpu.cores()) - len(reserved))
    compilers = settings.max_jobs or min(free, compilers_at_once())
    jobs = min(compilers, 2 if device.type == "cuda" else 1)  # CUDA: the binding and the kernels
    return Shares(
        builders=tuple(core for core in cores if core not in reserved),
        reserved=tuple(sorted(reserved)) or None,
        builds=max(1, compilers // jobs),
        jobs=jobs,
    )
