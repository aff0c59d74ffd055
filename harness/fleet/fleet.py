"""Many judges at once: hands units out, writes what comes back, in one place.

A thread stays with each slot; this process alone writes results, raw samples and logs. Rows go
to the file of their device's model, unless one file is named for all. What is interrupted goes
on where it stopped: a row of an earlier run settles its solution, if the judge that gets it
has such a device.

Nothing here knows what a slot is made of: slots.py, cluster.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from harness import identity, run
from harness.errors import HarnessError, MachineError
from harness.fleet import units
from harness.fleet.backlog import Backlog, Item, Unit
from harness.fleet.slots import Lost, Slot
from harness.fleet.units import REFUSALS, Message
from harness.fleet.writer import Where, Writer
from harness.records import Environment, Row
from harness.run import Job, Observer, Request
from harness.wording import counted

TICK_S = 0.2
GROW_S = 10.0  # between looks for new places
TIRED = 5  # judges lost in a row, with nothing known in between, after which a slot is left alone

Grow = Callable[[], Sequence[Slot]]


def silence_s(request: Request) -> float:
    """Seconds without a word after which a judge is given up: more than any one step may take."""
    s = request.settings
    return 3 * (s.start_timeout_s + s.build_timeout_s + s.call_timeout_s)


def execute(
    request: Request,
    slots: Sequence[Slot],
    observer: Observer,
    *,
    device: str,
    grow: Grow = lambda: (),
    cache_dir: Path | None = None,
) -> list[Row]:
    """Evaluate everything on `slots`, and on those that `grow` names from time to time.

    `device` is what judges call the device that they see; `cache_dir` is where they build (None:
    each node by itself). Rows are in the order of the request.
    Raises `RequestError` or `MachineError`; what is known by then is kept.
    """
    jobs = run.find(request)
    settings = dataclasses.replace(request.settings, device=device)
    terms = units.terms(dataclasses.replace(request, settings=settings), run.new_run_id())
    terms["cache_dir"] = cache_dir and str(cache_dir)
    fleet = _Fleet(
        request=request, jobs=jobs, terms=terms, observer=observer, slots=slots, grow=grow
    )
    try:
        fleet.serve()
    finally:
        fleet.end()
    return [row for _, row in sorted(fleet.writer.rows.items(), key=lambda item: item[0])]


@dataclass(kw_only=True)
class _Post:
    """What a thread knows of its slot. `losses`: in a row, with nothing known in between."""

    number: int
    slot: Slot
    environment: Environment | None = None
    losses: int = 0


@dataclass(kw_only=True)
class _Fleet:
    """One run. Threads put what has to be done into `_tasks`; the main thread does it."""

    request: Request
    jobs: list[Job]
    terms: Message
    observer: Observer
    slots: Sequence[Slot]
    grow: Grow
    _tasks: queue.Queue[Callable[[], None]] = field(default_factory=queue.Queue)
    _posts: list[_Post] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)
    _warned: set[str] = field(default_factory=set)
    _last_words: str = ""

    def __post_init__(self) -> None:
        alone = self.request.self_check  # one evaluation a problem
        counts = [1 if alone else len(job.solutions) for job in self.jobs]
        self.backlog = Backlog(counts, len(self.slots))
        self.writer = Writer(request=self.request, observer=self.observer, total=sum(counts))

    def _add(self, slot: Slot) -> None:
        post = _Post(number=len(self._posts), slot=slot)
        thread = threading.Thread(target=self._stay, args=(post,), daemon=True)
        self._posts.append(post)
        self._threads.append(thread)
        thread.start()

    # --- the main thread ------------------------------------------------------------------------

    def serve(self) -> None:
        """Write what comes until all is known. Raises `HarnessError`."""
        for slot in self.slots:
            self._add(slot)
        self.observer.begin(
            counted(len(self._posts), "device"), counted(self.writer.total, "solution"), ""
        )
        looked = time.monotonic()
        while self._at_work() or not self._tasks.empty():
            with contextlib.suppress(queue.Empty):
                self._tasks.get(timeout=TICK_S)()
            if time.monotonic() - looked > GROW_S and not self.backlog.finished:
                looked = time.monotonic()
                for slot in self.grow():
                    self._add(slot)
        if not self.backlog.finished:
            raise MachineError(f"no judge is left: {self._last_words}")

    def _at_work(self) -> bool:
        """Whether anything may still come; a slot may wait for room that nobody needs any more."""
        alive = any(thread.is_alive() for thread in self._threads)
        return alive and not self.backlog.finished

    def end(self) -> None:
        """End all judges; rows that they said before are written."""
        self.backlog.stop()
        with ThreadPoolExecutor(max(1, len(self._posts))) as pool:
            list(pool.map(lambda post: post.slot.end(), self._posts))
        for thread in self._threads:
            thread.join()
        while not self._tasks.empty():
            task = self._tasks.get()
            if getattr(task, "func", None) == self.writer.write:
                task()

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self.observer.warn(text)

    # --- a slot's thread ------------------------------------------------------------------------

    def _stay(self, post: _Post) -> None:
        """Serve a slot until all is known, or it is of no use."""
        try:
            while not self.backlog.finished:
                try:
                    self._start(post)
                    self.backlog.enter(post.number)
                    self._take_units(post)
                except Lost as lost:
                    self.backlog.leave(post.number)
                    post.losses += 1
                    if not self.backlog.finished:
                        self._say(f"{post.slot.name}: a judge was lost: {lost}")
                    if post.losses >= TIRED and (post.environment is None or not self._alone(post)):
                        raise MachineError(
                            f"lost {counted(post.losses, 'judge')} in a row"
                        ) from None
        except MachineError as error:
            self._last_words = f"{post.slot.name}: {error}"
            self._say(f"{self._last_words}; it gets no more work")
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self._tasks.put(functools.partial(_raise, error))
        finally:
            self.backlog.leave(post.number)

    def _say(self, text: str) -> None:
        self._tasks.put(functools.partial(self._warn, text))

    def _alone(self, post: _Post) -> bool:
        others = (t for p, t in zip(self._posts, self._threads, strict=False) if p is not post)
        return not any(thread.is_alive() for thread in others)

    def _start(self, post: _Post) -> None:
        message = post.slot.start(self.terms)
        if "refused" in message:
            _refuse(message["refused"])
        post.environment = Environment(**message["hello"]["environment"])

    def _take_units(self, post: _Post) -> None:
        """Unit after unit. Raises `Lost` or `HarnessError`."""
        while (unit := self.backlog.take(post.number)) is not None:
            held = _Held(unit=unit, names=self._names(unit))
            try:
                self._judge(post, held)
                if unit.items:
                    raise Lost("it left solutions out")
            except Lost as lost:
                given_up = self.backlog.lost(unit, str(lost), held.begun)
                if given_up is not None:
                    post.losses = 0
                    self._give_up(post, given_up, held.size)
                raise
            except HarnessError:
                self.backlog.returned(unit)
                raise

    def _judge(self, post: _Post, held: _Held) -> None:
        assert post.environment is not None
        device_name = post.environment.device_name
        job = self.jobs[held.unit.problem]
        solutions = [job.solutions[i.solution] for i in held.unit.items] if job.solutions else []
        part = dataclasses.replace(job, solutions=solutions)
        for message in post.slot.judge(units.pack(part, self.writer.settled(device_name, part))):
            if "refused" in message:
                _refuse(message["refused"])
            elif "warn" in message:
                self._say(str(message["warn"]))
            elif "begin" in message:
                _, solution, held.size = message["begin"]
                held.begun = held.names.get(solution)
            elif "row" in message:
                number = held.names.get(message["row"]["solution"], -1)
                if self.backlog.known(held.unit, number):
                    post.losses = 0
                    self._put((held.unit.problem, number), message)

    def _give_up(self, post: _Post, item: Item, size: str) -> None:
        """Whoever evaluated it was lost, time and again: that becomes its row."""
        assert post.environment is not None
        job, reasons = self.jobs[item.problem], "; ".join(dict.fromkeys(item.losses))
        row = units.lost_row(
            self.request,
            self.terms["run_id"],
            job.problem,
            job.solutions[item.solution] if job.solutions else None,
            environment=post.environment,
            size=size,
            message=f"its judge was lost {counted(len(item.losses), 'time')}: {reasons}",
        )
        self._put((item.problem, item.solution), {"row": row.flat(), "known": False})

    def _put(self, where: Where, message: Message) -> None:
        self._tasks.put(functools.partial(self.writer.write, where, message))

    def _names(self, unit: Unit) -> dict[str, int]:
        """Solution's name -> its number."""
        if self.request.self_check:
            return {identity.NAME: 0}
        solutions = self.jobs[unit.problem].solutions
        return {solutions[item.solution].name: item.solution for item in unit.items}


@dataclass(kw_only=True)
class _Held:
    """A unit at work: its solutions by name, and which is being evaluated."""

    unit: Unit
    names: dict[str, int]
    begun: int | None = None
    size: str = ""


def _refuse(refused: dict[str, Any]) -> NoReturn:
    """As the judge raised it: a wrong request is one for all, a machine's fault its own."""
    if refused["kind"] in REFUSALS:
        raise REFUSALS[refused["kind"]](refused["message"])
    raise Lost(refused["message"])


def _raise(error: BaseException) -> NoReturn:
    raise error
