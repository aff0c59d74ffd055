"""Starts, watches and ends a worker.

A worker gets a clean environment, a private folder as its working directory, an interpreter
that ignores the caller's paths, one visible device, its own session, and one socket; no other
descriptor. Its whole process tree is ended before anything that it left is read; `warden`
sees to it that no process leaves that tree. With a `jail` (isolation.py) it runs in namespaces of
its own. How its process is started: launching.py.

Not covered without a jail: a worker runs as the same user on the same file system.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from harness.judge.process import forkserver
from harness.judge.process.forkserver import ForkServer, Place
from harness.judge.process.launching import launch
from harness.judge.process.usage import Usage
from harness.shared import channel
from harness.shared.channel import Channel, Message

END_S = 10.0  # that a warden gets to end its processes
LOOK_S = 1.0  # between two looks at the processes of a build


class WorkerFault(Exception):
    """The worker answered that an order failed. `fault`: its own account, a claim."""

    def __init__(self, fault: dict[str, Any]) -> None:
        super().__init__(printable(str(fault.get("message", ""))))
        self.kind = str(fault.get("kind", "exception"))
        self.text = printable(str(fault.get("text", "")))
        self.builds = fault.get("builds")


class SourcesChanged(WorkerFault):
    """What the judge has found itself: the harness's sources are not what they were."""

    def __init__(self, message: str) -> None:
        super().__init__({"kind": "machine", "message": message})


def printable(text: str) -> str:
    """`text` without control characters: what a terminal would obey is shown instead."""
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


class WorkerTimeout(Exception):
    """No answer by the deadline; the worker has been ended."""


class WorkerCrash(Exception):
    """The worker died. The message says of what."""


class WorkerLied(Exception):
    """The worker sent something that is no answer to the order."""


#: All that `Worker.ask` raises.
FAILURES = (WorkerFault, WorkerTimeout, WorkerCrash, WorkerLied)


@contextlib.contextmanager
def claimed() -> Iterator[None]:
    """Around what reads an answer. Raises `WorkerLied` where a part is missing or misshapen, or a
    number is too large."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise WorkerLied(f"a malformed answer: {error!r}") from error


class Worker:
    """One worker process. Use as a context manager: leaving it ends the process tree."""

    def __init__(
        self,
        *,
        environment: dict[str, str],
        folder: Path,
        log: Path,
        first: dict[str, Any],
        jail: Sequence[str] = (),
        server: ForkServer | None = None,
    ) -> None:
        self.folder = folder
        self._jailed = bool(jail)
        log.parent.mkdir(parents=True, exist_ok=True)
        ours, theirs = socket.socketpair()
        with theirs, log.open("ab") as written:
            place = Place(
                environment=environment, folder=folder, channel=theirs, log=written.fileno()
            )
            self._process = launch(place, jail=jail, server=server)
        self._channel = Channel(ours)
        self._first = first
        self._known: psutil.Process | None = None
        with contextlib.suppress(psutil.NoSuchProcess):
            self._known = psutil.Process(self._process.pid)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(self, timeout_s: float) -> None:
        """Wait until the worker is ready. Raises as `ask` does."""
        self._exchange(self._first, timeout_s, 0)

    def ask(
        self,
        order: str,
        *,
        timeout_s: float,
        alone_s: float | None = None,
        max_tensor_bytes: int = 0,
        ipc: bool = True,
        **arguments: Any,
    ) -> Message:
        """Give one order and wait for its answer, `timeout_s` seconds at most, and no more than
        `alone_s` without a process that the order has started, such as a compiler. `ipc`: CUDA
        memory may come as a handle, so that the worker can still write to what it has answered.

        Raises `WorkerFault`, `WorkerTimeout`, `WorkerCrash` or `WorkerLied`.
        """
        # A handle of CUDA memory cannot be opened from another pid namespace: bytes travel then.
        ipc = ipc and max_tensor_bytes > 0 and not self._jailed
        body = {"order": order, "ipc": ipc, **arguments}
        return self._exchange(body, timeout_s, max_tensor_bytes, alone_s)

    def _exchange(
        self,
        body: dict[str, Any],
        timeout_s: float,
        max_tensor_bytes: int,
        alone_s: float | None = None,
    ) -> Message:
        nonce, deadline = secrets.token_hex(8), time.monotonic() + timeout_s
        try:
            usual = self._pids_left() if alone_s is not None else set()
            self._channel.send(body | {"nonce": nonce})
            if alone_s is not None:
                self._await(usual, alone_s, deadline)
            message = self._channel.receive(
                deadline=deadline,
                max_tensor_bytes=max_tensor_bytes,
                shared=bool(body.get("ipc")),
            )
        except channel.ChannelTimeout:
            self.end()
            raise WorkerTimeout(f"no answer within {timeout_s:g} s") from None
        except channel.ChannelClosed:
            raise WorkerCrash(self._obituary()) from None
        except channel.ChannelError as error:
            raise WorkerLied(str(error)) from None
        if problem := _problem(message.body, nonce):
            message.close()
            raise problem
        return message

    def _await(self, usual: set[int], alone_s: float, deadline: float) -> None:
        """Wait for an answer until the deadline. Raises `WorkerTimeout` where for `alone_s` there
        was no process beside the `usual`; those that come and go between two looks are not seen."""
        now = alone_since = time.monotonic()
        while not self._channel.readable(min(LOOK_S, alone_s / 4, deadline - now)):
            now = time.monotonic()
            if now >= deadline:
                return
            if self._pids_left() - usual:
                alone_since = now
            elif now - alone_since >= alone_s:
                self.end()
                text = f"no answer within {alone_s:g} s in which no compiler ran (import_timeout_s)"
                raise WorkerTimeout(text)

    def cpu_s(self) -> float:
        """Seconds of processor time that the worker's processes have used, all together; those of
        processes that have ended are their parent's, or the warden's. Raises as `pids`."""
        total = 0.0
        for process in [self._warden(), *self._processes()]:
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system
                total += times.children_user + times.children_system
        return total

    def usage(self) -> Usage:
        """How long the threads of the worker's processes were on a processor. Raises as `pids`."""
        return Usage.of(self.pids())

    def pids(self) -> list[int]:
        """The worker's processes, as this process numbers them. Raises `WorkerCrash` where the
        warden is gone: whatever it watched over could be anywhere."""
        return [process.pid for process in self._processes()]

    def _pids_left(self) -> set[int]:
        """`pids`; none where the warden is gone: the channel tells what became of the worker."""
        with contextlib.suppress(WorkerCrash):
            return set(self.pids())
        return set()

    def _processes(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            return self._warden().children(recursive=True)
        return []

    def _warden(self) -> psutil.Process:
        warden = self._known
        with contextlib.suppress(psutil.NoSuchProcess):
            if warden and warden.is_running() and warden.status() != psutil.STATUS_ZOMBIE:
                return warden
        raise WorkerCrash("the process that watches over the worker was ended")

    def _obituary(self) -> str:
        """How the process ended, for people."""
        try:
            code = self._process.wait(timeout=END_S)
        except subprocess.TimeoutExpired:
            self.end()
            return "the worker closed its channel"
        if self._jailed and code > 128:  # as bubblewrap tells of a signal
            code = 128 - code
        if code >= 0:
            return f"the process ended itself with status {code}"
        known = -code in signal.Signals.__members__.values()
        name = signal.Signals(-code).name if known else f"signal {-code}"
        extra = ", most likely for want of memory" if name == "SIGKILL" else ""
        return f"the process died of {name}{extra}"

    def stop(self) -> None:
        """Tell it to end, from any thread: whoever waits for its answer meets a crash."""
        self._process.terminate()

    def end(self) -> None:
        """End the worker and everything that it started; idempotent."""
        self._channel.close()
        self._process.terminate()
        try:
            self._process.wait(timeout=END_S)
        except subprocess.TimeoutExpired:  # the warden was stopped by its charge
            forkserver.kill_tree(self._process.pid)
            self._process.wait()


def _problem(body: dict[str, Any], nonce: str) -> WorkerFault | WorkerLied | None:
    """What keeps a message from being the answer to the order of `nonce`."""
    if body.get("nonce") != nonce:
        return WorkerLied("an answer to no order of the judge's")
    if isinstance(body.get("fault"), dict):
        return WorkerFault(body["fault"])
    if not isinstance(body.get("answer"), dict):
        return WorkerLied("an answer without content")
    return None


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """A folder for one worker, removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="harness-"))
    try:
        yield folder
    finally:
        try:
            shutil.rmtree(folder, ignore_errors=True)
        except RecursionError:  # folders in folders, thousands deep
            subprocess.run(["rm", "-rf", "--", folder], check=False)
