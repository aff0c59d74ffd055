"""Slots: places where a judge runs. Here: a process of this machine, on cores of its own.

A judge sees one device, which its environment names before it starts. What it prints goes to
its log; what it says comes over a socket. It ends when that socket is closed, or is killed.

Without torch: also the process on a node of a cluster that only passes messages on is made
of this (cluster.py).
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from harness import ROOT
from harness.fleet.wire import Wire, WireClosed, WireTimeout

_BOOTSTRAP = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); "
    "runpy.run_module('harness.fleet.judging', run_name='__main__', alter_sys=True)"
)
JUDGE = (sys.executable, "-c", _BOOTSTRAP, str(ROOT))
END_S = 15.0  # that a judge gets to end its workers


class Lost(Exception):
    """The judge is gone, or said nothing for too long. The message is one line."""


class Slot(Protocol):
    """A place for a judge. `end` may be called from any thread, and more than once."""

    name: str

    def start(self, terms: Mapping[str, Any]) -> dict[str, Any]:
        """Start a judge; its first message. Raises `Lost`."""
        ...

    def judge(self, unit: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """What the judge says to a unit, to the last message. Raises `Lost`."""
        ...

    def end(self) -> None: ...


@dataclass(kw_only=True)
class LocalSlot:
    """A judge in a process of this machine.

    `environment` is added to this process's own, `cores` are those that the judge and all its
    workers run on (None: any), `neighbours` how many judges share the machine's memory, itself
    included. It is lost if it says nothing for `silence_s` seconds.
    """

    name: str
    environment: Mapping[str, str]
    log: Path
    silence_s: float
    cores: frozenset[int] | None = None
    neighbours: int = 1
    command: Sequence[str] = JUDGE
    _process: subprocess.Popen[bytes] | None = None
    _wire: Wire | None = None
    _ready: bool = False
    _ended: bool = False
    _starting: threading.Lock = field(default_factory=threading.Lock)

    def start(self, terms: Mapping[str, Any]) -> dict[str, Any]:
        ours, theirs = socket.socketpair()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self._starting, theirs, self.log.open("ab") as log, _on(self.cores):
            self._stop_process()
            if self._ended:
                ours.close()
                raise Lost("ended")
            self._process = subprocess.Popen(
                [*self.command, str(theirs.fileno())],
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C is ours to pass on
            )
            self._wire = Wire(ours)
        hello = self._exchange({**terms, "neighbours": self.neighbours})
        self._ready = True
        return hello

    def judge(self, unit: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        message = self._exchange(dict(unit))
        while not {"done", "refused"} & set(message):
            yield message
            message = self._exchange(None)
        yield message

    def _exchange(self, message: dict[str, Any] | None) -> dict[str, Any]:
        assert self._wire is not None, "start comes first"
        try:
            if message is not None:
                self._wire.send(message)
            return self._wire.receive(self.silence_s)
        except WireTimeout:
            self._kill()
            raise Lost(f"it said nothing for {self.silence_s:g} s") from None
        except (WireClosed, ValueError):
            raise Lost(self._obituary()) from None

    def _obituary(self) -> str:
        assert self._process is not None
        try:
            code = self._process.wait(timeout=END_S)
        except subprocess.TimeoutExpired:
            self._kill()
            return "it closed its socket"
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"it died of {signal.Signals(-code).name}"
            return f"it died of signal {-code}"
        return f"it ended with status {code}; its log is {self.log}"

    def _kill(self) -> None:
        """The judge at once; its workers' wardens see that and end theirs."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _stop_process(self) -> None:
        if self._wire is not None:
            self._wire.close()
        if self._process is not None:
            try:
                self._process.wait(timeout=END_S if self._ready else 0.0)
            except subprocess.TimeoutExpired:
                self._kill()
        self._ready = False

    def end(self) -> None:
        """End the judge and its workers; a `judge` that goes on elsewhere raises `Lost`."""
        self._ended = True
        with self._starting:
            self._stop_process()


@contextlib.contextmanager
def _on(cores: frozenset[int] | None) -> Iterator[None]:
    """This thread, and what it starts, on some cores only."""
    if cores is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
