"""A judge as a process of its own: takes units, says what becomes of them. Started by slots.py.

It sees one device. Rows are said as they are known; nothing of it is in the results but through
who started it. A problem stays open until another one's unit comes: its reference is measured
once. When the socket is closed it ends its workers and itself.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import torch

from harness import results, run, samples
from harness.errors import HarnessError
from harness.fleet.units import Damaged, Message, request_of, unpack
from harness.fleet.wire import Wire, WireClosed
from harness.judge import device
from harness.judge.case import Opened
from harness.judge.context import COMPILER_BYTES, Context, compilers_at_once
from harness.judge.process.sandbox import private_folder
from harness.records import Row

LOG_BYTES = 1 << 20  # of a worker's log, that travel
ENDING_S = 10.0  # that this process gets to end its workers once nobody listens


def main(descriptor: int) -> None:
    """Serve the socket until it is closed."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever who started it does
    wire = Wire(socket.socket(fileno=descriptor))
    orders = _Orders(wire)
    with private_folder() as folder, contextlib.suppress(KeyboardInterrupt, WireClosed):
        told = orders.next()
        judge = _Judge(wire=wire, output=folder / "rows.csv")
        with _refusals(wire):
            judge.get_ready(told)
        while True:
            unit = orders.next()
            with _refusals(wire):
                judge.evaluate(unit)


@contextlib.contextmanager
def _refusals(wire: Wire) -> Iterator[None]:
    try:
        yield
    except HarnessError as error:
        wire.send({"refused": {"kind": type(error).__name__, "message": str(error)}})


class _Orders:
    """Reads orders in a thread, which also sees at once when there is nobody left."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._queue: queue.Queue[Message | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def next(self) -> Message:
        """Raises `WireClosed`."""
        order = self._queue.get()
        if order is None:
            raise WireClosed("nobody is there")
        return order

    def _read(self) -> None:
        with contextlib.suppress(WireClosed):
            while True:
                self._queue.put(self._wire.receive())
        self._queue.put(None)
        # Whatever the main thread waits for, it now ends; if it cannot, the process does, and
        # the wardens of its workers see that.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        threading.main_thread().join(ENDING_S)
        os._exit(1)


@dataclass(kw_only=True)
class _Judge:
    """What stays between units: the context, and the problem that is open."""

    wire: Wire
    output: Path
    _request: run.Request = field(init=False)
    _context: Context = field(init=False)
    _opened: Opened = field(default_factory=lambda: Opened(faults=True))

    def get_ready(self, terms: Message) -> None:
        """Choose the device, and say what it is. Raises `HarnessError`."""
        request = request_of(terms, self.output)
        settings = request.settings
        if settings.max_jobs is None:
            settings = dataclasses.replace(settings, max_jobs=_compilers(terms["neighbours"]))
        self._request = dataclasses.replace(request, settings=settings)
        context = run.make_context(self._request)
        self._context = dataclasses.replace(context, run_id=terms["run_id"])
        environment = device.environment(
            context.device,
            threads=settings.threads or torch.get_num_threads(),
            allow_tf32=settings.allow_tf32,
        )
        self.wire.send({"hello": {"environment": dataclasses.asdict(environment)}})

    def evaluate(self, message: Message) -> None:
        """Evaluate a unit, telling everything. Raises `HarnessError`."""
        try:
            job, known = unpack(message)
        except Damaged as error:
            raise HarnessError(str(error)) from None
        self.output.unlink(missing_ok=True)
        for row in known:
            results.append(self.output, results.to_row(row))
        told = _Teller(wire=self.wire, folder=self.output.parent, run_id=self._context.run_id)
        run.run_jobs(self._request, self._context, [job], told, self._opened)
        self.wire.send({"done": True})


def _compilers(neighbours: int) -> int:
    """As many as there are cores for this judge, and memory when all have as many."""
    memory = int(psutil.virtual_memory().available // (COMPILER_BYTES * neighbours))
    return max(1, min(compilers_at_once(), memory))


@dataclass(kw_only=True)
class _Teller:
    """An observer that says everything to who gave the unit."""

    wire: Wire
    folder: Path
    run_id: str

    def begin(self, problem: str, solution: str, size: str) -> None:
        self.wire.send({"begin": [problem, solution, size]})

    def note(self, text: str) -> None:
        self.wire.send({"note": text})

    def progress(self, done: int, total: int) -> None:
        """Of one unit, which says nothing of the run."""

    def warn(self, text: str) -> None:
        self.wire.send({"warn": text})

    def row(self, row: Row) -> None:
        message: Message = {"row": row.flat(), "known": row.run_id != self.run_id}
        if not message["known"]:
            raw = samples.name_of(row.run_id, row.problem, row.solution)
            packed = _taken(samples.file_for(raw, self.folder / "raw"))
            log = _taken(Path(row.log), LOG_BYTES) if row.log else None
            message["samples"] = None if packed is None else base64.b64encode(packed).decode()
            message["log"] = None if log is None else log.decode(errors="replace")
        self.wire.send(message)


def _taken(file: Path, limit_bytes: int | None = None) -> bytes | None:
    """What a file of this judge's own holds, its middle left out over the limit; it is removed."""
    if not file.is_file():
        return None
    with file.open("rb") as opened:
        if limit_bytes is None or file.stat().st_size <= limit_bytes:
            data = opened.read()
        else:
            data = opened.read(limit_bytes // 2) + b"\n[...]\n"
            opened.seek(-(limit_bytes // 2), os.SEEK_END)
            data += opened.read()
    file.unlink()
    return data


if __name__ == "__main__":
    main(int(sys.argv[1]))
