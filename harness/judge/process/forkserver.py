"""The judge's end of a fork server (`forker`): workers that start in a fraction of a second.

A worker started as a program imports torch first, which takes seconds. A fork server has done
so, and forks. There is one for each environment that workers get, started when it is first
needed; it ends with the judge.

Not covered: a worker that runs without a jail could change the server as it could the judge; both
are the same user's.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from harness import ROOT

PRELOADED = ("harness.worker.preload",)
#: Read when they are needed, so that each worker gets its own. All other variables are read at
#: import or by the loader: a server has them from its start.
LATE = frozenset(
    {
        *("HOME", "TMPDIR", "TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"),
        *("CUDA_VISIBLE_DEVICES", "TORCH_CUDA_ARCH_LIST", "MAX_JOBS"),
    }
)
_CORES = sorted(os.sched_getaffinity(0))  # before any thread has been given fewer
_FORKER = Path(__file__).with_name("forker.py")
START_S = 120.0  # that a server may take to import
FORK_S = 20.0  # that it may take to fork, once it has
_log = logging.getLogger(__name__)


class ForkServerError(Exception):
    """No worker can be had of this server. The message is one line."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """What a worker is put into. `channel`: its end of it. `log`: a descriptor, its output."""

    environment: dict[str, str]
    folder: Path
    channel: socket.socket
    log: int


class Forked:
    """A warden that a server has forked; as much of `subprocess.Popen` as a worker needs."""

    def __init__(self, pid: int, control: socket.socket) -> None:
        self.pid = pid
        self._control = control
        self._status: int | None = None

    def terminate(self) -> None:
        """Ask the warden to end its worker and itself."""
        with contextlib.suppress(OSError):  # it has ended
            self._control.shutdown(socket.SHUT_WR)

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, a signal as its negative. Raises `subprocess.TimeoutExpired`."""
        if self._status is None:
            told = _receive(self._control, timeout)
            if told is None:
                raise subprocess.TimeoutExpired("worker", timeout or 0.0)
            if not told:  # the server was killed, and the warden with it
                kill_tree(self.pid)
            self._status = int(told.get("status", -signal.SIGKILL))
            self._control.close()
        return self._status


class ForkServer:
    """One server. `environment`: of its process, and what `LATE` does not name of its workers'."""

    def __init__(
        self, environment: dict[str, str], *, preloaded: Sequence[str] = PRELOADED
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="harness-"))
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        places = {name: str(self._folder) for name in ("HOME", "TMPDIR")}
        with theirs, (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-I", str(_FORKER), str(ROOT), str(theirs.fileno())),
                    *(",".join(map(str, _CORES)), *preloaded),
                ],
                cwd=self._folder,
                env={k: v for k, v in environment.items() if k not in LATE} | places,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._within_s = START_S

    def start(self, code: str, arguments: Sequence[str], place: Place) -> Forked:
        """A worker that executes `code` as `python -c` would, on the calling thread's cores; the
        number of its channel is its last argument. Raises `ForkServerError`."""
        order = {
            "code": code,
            "arguments": list(arguments),
            "environment": place.environment,
            "folder": str(place.folder),
            "cores": sorted(os.sched_getaffinity(0)),
        }
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            descriptors = [theirs.fileno(), place.channel.fileno(), place.log]
            try:
                socket.send_fds(self._requests, [json.dumps(order).encode()], descriptors)
            except OSError as error:
                ours.close()
                raise ForkServerError(self._last_words() or str(error)) from error
        told = _receive(ours, self._within_s)
        if not told:
            ours.close()
            silent = f"no worker within {self._within_s:g} s"
            raise ForkServerError(silent if told is None else self._last_words())
        self._within_s = FORK_S
        return Forked(told["pid"], ours)

    def close(self) -> None:
        """End the server, also one that still imports, and with it all of its workers."""
        self._requests.close()
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1.0)
        lines = (self._folder / "log").read_text(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return said[-1] if said else f"it ended with status {self._process.returncode}"


def _receive(control: socket.socket, timeout: float | None) -> dict[str, Any] | None:
    """The next message; {} where the server is gone, None where there is none in time."""
    if not select.select([control], [], [], timeout)[0]:
        return None
    try:
        told = control.recv(4096)
    except ConnectionResetError:
        return {}
    return dict(json.loads(told)) if told else {}


def kill_tree(pid: int) -> None:
    """Kill a process and all that descend from it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in [*root.children(recursive=True), root]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


_Key = tuple[object, ...]
_servers: dict[_Key, ForkServer | None] = {}  # None: it cannot be had
_lock = threading.Lock()


def shared(environment: dict[str, str]) -> ForkServer | None:
    """The server for workers with this environment, started by the first who asks; None where it
    has failed."""
    with _lock:
        key = _key(environment)
        if key not in _servers:
            _servers[key] = ForkServer(environment)
        return _servers[key]


def give_up(server: ForkServer, error: ForkServerError) -> None:
    """Close a server that has failed, with a warning; `shared` gives none in its place."""
    with _lock:
        for key, known in _servers.items():
            if known is server:
                _servers[key] = None
                _log.warning("workers start slowly, each as a program: %s", error)
    server.close()


def _key(environment: dict[str, str]) -> _Key:
    """What a server has from its start."""
    return tuple(sorted((name, text) for name, text in environment.items() if name not in LATE))


@atexit.register
def _close_all() -> None:
    for server in _servers.values():
        if server is not None:
            server.close()
    _servers.clear()
