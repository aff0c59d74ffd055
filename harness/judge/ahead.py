"""Builds run ahead of the evaluations that need them, out of the way of what is timed.

Each runs in a worker of its own that sees no GPU and fills the cache that the evaluation's worker
then finds. With a GPU and enough cores, judge and workers keep some cores to themselves and the
builds get the others; elsewhere no build runs while something is timed (`Gate`).

Covers what a solution's file builds when it is executed. Not covered: what it builds later, or
only where it sees a GPU (the evaluation does that itself); a file that gives itself other cores,
or finds a GPU all the same, while others are measured.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import re
import sys
import threading
import weakref
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import harness
from harness import cpu
from harness.judge import build
from harness.judge.build import Build
from harness.judge.context import Context
from harness.judge.process.cores import Gate, Shares, shares
from harness.judge.process.sandbox import Worker
from harness.records import Problem, Solution, Status

_BUILDS = re.compile(r"load_inline|cpp_extension")
#: A build that has failed without a GPU may be another one with a GPU.
_ASKS_FOR_GPU = re.compile(r"torch\.cuda|torch import cuda|is_available|environ")


def needs_build(solution: Solution) -> bool:
    """Whether the text can build anything."""
    return bool(_BUILDS.search(solution.source))


@dataclass(frozen=True, kw_only=True)
class Task:
    """One solution to be built, for a run under `context`."""

    context: Context
    problem: Problem
    solution: Solution


class Builds:
    """Builds `tasks` in their order, while in its `with` block; leaving it ends all that are
    under way. Keys are the caller's. With `again`, also what earlier runs have
    built. `waits` is called before something to be timed waits for builds."""

    def __init__(
        self,
        tasks: Mapping[Any, Task],
        *,
        again: bool = False,
        waits: Callable[[], None] = lambda: None,
    ) -> None:
        self._tasks = {key: task for key, task in tasks.items() if again or not _known(task)}
        self._futures: dict[Hashable, Future[Build | None]] = {}
        self._running: weakref.WeakSet[Worker] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._closed = False
        self._gate = Gate(waits)
        self._shares: Shares | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._before = os.sched_getaffinity(0), torch.get_num_threads()

    def __enter__(self) -> Builds:
        if not self._tasks:
            return self
        context = next(iter(self._tasks.values())).context
        self._shares = parts = shares(context.device, context.settings)
        self._pool = ThreadPoolExecutor(
            parts.builds, "build", initializer=lambda: os.sched_setaffinity(0, parts.builders)
        )
        self._futures = {
            key: self._pool.submit(self._build, task) for key, task in self._tasks.items()
        }
        if parts.reserved:
            # This thread's, which workers inherit, and which torch counted when it was loaded.
            os.sched_setaffinity(0, parts.reserved)
            torch.set_num_threads(min(len(parts.reserved), self._before[1]))
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            running = list(self._running)
        for worker in running:
            worker.stop()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            os.sched_setaffinity(0, self._before[0])
            torch.set_num_threads(self._before[1])

    def beside(self, context: Context) -> Context:
        """The context of evaluations while these builds run."""
        if self._shares is None or self.apart:
            return context
        return dataclasses.replace(context, quiet=self._gate.quiet)

    @property
    def apart(self) -> bool:
        """Whether builds and evaluations have cores of their own."""
        return self._shares is not None and self._shares.reserved is not None

    def ready(self, key: Hashable) -> bool:
        """Whether there is nothing to wait for: built, failed, or no task."""
        return key not in self._futures or self._futures[key].done()

    def build_of(self, key: Hashable) -> Build | None:
        """What became of a build that is ready; None where there was none to do.

        Raises what kept it from being tried.
        """
        return self._futures[key].result() if key in self._futures else None

    def settled(self, key: Hashable) -> Build | None:
        """The build, where it ends the evaluation too: the evaluation's would fail alike."""
        found = self.build_of(key)
        if found is None or found.fault not in ("compile", "machine"):
            return None
        task = self._tasks[key]
        seen = task.context.device.type == "cuda"
        doubtful = found.fault == "compile" and seen
        return None if doubtful and _ASKS_FOR_GPU.search(task.solution.source) else found

    def wait(self) -> None:
        """Return when one more build is ready. There must be one that is not."""
        wait([f for f in self._futures.values() if not f.done()], return_when=FIRST_COMPLETED)

    @property
    def state(self) -> str:
        """How far the builds are, for people; "" where all are done."""
        left = [future for future in self._futures.values() if not future.done()]
        if not left:
            return ""
        under_way = min(self._gate.builds, len(left))
        return f"builds: {under_way} under way, {len(left) - under_way} to come"

    def _build(self, task: Task) -> Build | None:
        assert self._shares is not None
        context = dataclasses.replace(
            task.context,
            settings=dataclasses.replace(task.context.settings, max_jobs=self._shares.jobs),
            device=dataclasses.replace(task.context.device, visible=""),
            started=self._started,
        )
        with self._gate.building():  # never shut where nobody asks for quiet
            if self._closed:
                return None
            found = build.alone(context, task.problem, task.solution)
        if found.verdict.status is Status.BUILT:
            _mark(task)
        return found

    def _started(self, worker: Worker) -> None:
        with self._lock:
            self._running.add(worker)
            if self._closed:
                worker.stop()


def _known(task: Task) -> bool:
    """Whether an earlier run on such a machine has built it. Where the cache lacks it all the
    same, the evaluation builds it."""
    folder = task.context.builds(task.solution.digest)
    return (folder / _marker(task.context)).exists()


def _mark(task: Task) -> None:
    folder = task.context.builds(task.solution.digest)
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        # What lies there was a worker's to write: a link of its is not followed.
        flags = os.O_CREAT | os.O_NOFOLLOW | os.O_WRONLY
        os.close(os.open(folder / _marker(task.context), flags, 0o644))


def _marker(context: Context) -> str:
    """The name of the file that says so: by all that the judge knows of what a build depends on."""
    known = [
        *(harness.__version__, torch.__version__, sys.version, cpu.digest(), _headers()),
        *(context.settings.cuda_arch or context.device.arch, context.settings.lean_builds),
        *(context.tools.cuda_home, context.tools.compiler),
    ]
    return f"ahead-{hashlib.sha256(json.dumps(known).encode()).hexdigest()[:16]}"


@functools.cache
def _headers() -> str:
    files = sorted((Path(harness.__file__).parent / "include").rglob("*.h"))
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()
