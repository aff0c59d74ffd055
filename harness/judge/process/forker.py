"""The process of a fork server: it has imported what a worker needs, and forks workers.

Run as a script, by path: `python -I forker.py ROOT DESCRIPTOR CORES MODULE...`. It imports the
modules on those cores (OpenMP counts them when it is loaded; workers may have fewer), never touches
CUDA, and is told nothing of a solution. A request on its socket brings what a worker is to execute,
its environment, folder and cores, and three descriptors: a control socket, the worker's channel,
its log. It forks a warden, which forks the worker; both have what they would have if they had been
started as programs.

On the control socket it tells which process the warden is, and later how that ended; when the
judge shuts it, the warden is told to end. When the judge is gone this process ends, and by that
all wardens.

Not covered: workers of one server share the seed of Python's hashes and the layout of memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import random
import select
import signal
import socket
import sys
import tempfile
import types
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

MAX_REQUEST_BYTES = 1 << 17
CONTROL, CHANNEL, LOG = range(3)  # the descriptors of a request
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a worker is and what it is to execute, as `python -c CODE ARGUMENTS...` would."""

    code: str
    arguments: list[str]
    environment: dict[str, str]
    folder: str
    cores: list[int]

    def execute(self) -> None:
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        sys.argv = ["-c", *self.arguments]
        exec(compile(self.code, "<string>", "exec"), main.__dict__)


def serve(root: str, descriptor: int, modules: list[str]) -> Order | None:
    """Serve until the judge is gone: None. In a worker: what it is to execute.

    Raises `RuntimeError` where the imports opened a GPU: its driver does not survive a fork.
    """
    sys.path.append(root)
    for module in modules:
        importlib.import_module(module)
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the descriptor of the listing itself
            if os.readlink(file).startswith("/dev/nvidia"):
                raise RuntimeError(f"importing {' '.join(modules)} opened {os.readlink(file)}")
    gc.collect()
    gc.freeze()  # a worker's collections leave alone, and shared, what it inherits
    return _Server(socket.socket(fileno=descriptor)).serve()


class _Server:
    """Forks wardens, and tells what becomes of them."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._ended, self._wake = socket.socketpair()
        self._wake.setblocking(False)
        self._controls: dict[int, socket.socket] = {}  # by the warden's process
        self._poll = select.poll()
        for sock in (self._requests, self._ended):
            self._poll.register(sock, select.POLLIN)

    def serve(self) -> Order | None:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        while True:
            ready = {number for number, _ in self._poll.poll()}
            if self._ended.fileno() in ready:
                self._ended.recv(4096)
                self._bury()
            for pid, control in self._controls.items():
                if control.fileno() in ready and not control.recv(1):
                    self._poll.unregister(control)
                    os.kill(pid, signal.SIGTERM)
            if self._requests.fileno() not in ready:
                continue
            request, descriptors, _, _ = socket.recv_fds(self._requests, MAX_REQUEST_BYTES, 3)
            if not request:
                return None
            order = self._start(Order(**json.loads(request)), descriptors)
            if order is not None:
                return order

    def _start(self, order: Order, descriptors: list[int]) -> Order | None:
        """Fork a warden, which forks a worker; the order in the worker, else None."""
        if (pid := os.fork()) == 0:
            self._forget()
            become(order, channel=descriptors[CHANNEL], log=descriptors[LOG])
            return replace(order, arguments=[*order.arguments, str(descriptors[CHANNEL])])
        control = socket.socket(fileno=descriptors[CONTROL])
        for descriptor in descriptors[CHANNEL:]:
            os.close(descriptor)
        self._controls[pid] = control
        self._poll.register(control, select.POLLIN)
        _tell(control, pid=pid)
        return None

    def _bury(self) -> None:
        """Tell of wardens that have ended; end what one has left that was killed by its charge."""
        with contextlib.suppress(ChildProcessError):  # there is none any more
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                control = self._controls.pop(pid, None)
                if control is None:  # left, and ended
                    continue
                with contextlib.suppress(KeyError):  # shut by the judge before
                    self._poll.unregister(control)
                _tell(control, status=os.waitstatus_to_exitcode(status))
                control.close()
        left: set[int] = set()
        with (
            contextlib.suppress(OSError),  # some kernels list none
            open(f"/proc/self/task/{os.getpid()}/children") as listing,
        ):
            left = set(map(int, listing.read().split())) - self._controls.keys()
        for pid in left:  # the next of its kind are ours when it is gone, and then it is their turn
            os.kill(pid, signal.SIGKILL)

    def _forget(self) -> None:
        """In a warden: let go of all that is the server's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for sock in (self._requests, self._ended, self._wake, *self._controls.values()):
            sock.close()


def become(order: Order, *, channel: int, log: int) -> None:
    """Make this process a warden, which never returns, and a child of its the worker."""
    from harness.judge.process import warden

    os.setsid()
    os.chdir(order.folder)
    null = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((null, log, log)):
        os.dup2(descriptor, number)
    for file in os.listdir("/proc/self/fd"):
        if int(file) not in (0, 1, 2, channel):
            with contextlib.suppress(OSError):  # the descriptor of the listing itself
                os.close(int(file))
    os.environ.clear()
    os.environ.update(order.environment)
    os.sched_setaffinity(0, order.cores)
    warden.confine()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # until somebody minds it
    if worker := os.fork():
        warden.guard(worker)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    os.setsid()
    tempfile.tempdir = None  # where it was of the server's environment
    _renew(len(order.cores))


def _renew(cores: int) -> None:
    """What was drawn from the system or counted at import is drawn and counted again."""
    random.seed()
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    if torch := sys.modules.get("torch"):
        torch.default_generator.seed()
        if torch.get_num_threads() > cores:
            torch.set_num_threads(cores)


def _tell(control: socket.socket, **facts: Any) -> None:
    with contextlib.suppress(OSError):  # the judge has closed it
        control.send(json.dumps(facts).encode())


if __name__ == "__main__":
    os.sched_setaffinity(0, map(int, sys.argv[3].split(",")))
    order = serve(sys.argv[1], int(sys.argv[2]), sys.argv[4:])
    if order is not None:
        order.execute()
