"""Stands between the judge and one worker, so that no process of the worker's can get away.

The warden is a child subreaper: what leaves the worker's process group, or outlives its
parent, becomes the warden's child. When the worker ends, is ended, or the judge dies, the
warden ends them all and then itself, in the way that the worker ended.

Run as a script, by path: `python -I -S warden.py COMMAND...`; a fork server (`forker`) forks
wardens and calls `confine` and `guard`. Standard library only.

A worker could kill its warden, which runs as the same user, but for namespaces: it gets no credit
then (`Worker.pids`), and a fork server ends what is left.

Not covered: what outlives such a warden where there is no fork server; a process that forks
faster than it can be listed and killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from typing import NoReturn

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36
MAX_FILE_BYTES = 4 << 30  # of any one file that a worker writes, its log included


def main(command: list[str]) -> NoReturn:
    """Start `command` with all descriptors passed on; end as it does."""
    confine()
    guard(subprocess.Popen(command, close_fds=False, start_new_session=True).pid)


def confine() -> None:
    """Make this process a warden: a subreaper that its parent's death ends, with the limits that
    its worker inherits."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE_BYTES, MAX_FILE_BYTES))


def guard(worker: int) -> NoReturn:
    """Wait for the process `worker`, a child; SIGTERM ends it. Then end all that it left, and
    this process as it ended."""
    running = True

    def end(*_: object) -> None:
        if running:
            with contextlib.suppress(ProcessLookupError):  # waited for just now
                os.kill(worker, signal.SIGKILL)

    signal.signal(signal.SIGTERM, end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # as it may have been, until now
    status = 0
    while running:
        pid, ended = os.waitpid(-1, 0)
        if pid == worker:
            running, status = False, ended
    _end_children()
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


def _end_children() -> None:
    """Kill children until none is left: killing one makes its children ours."""
    path = f"/proc/self/task/{os.getpid()}/children"
    while True:
        with open(path) as listing:
            children = [int(pid) for pid in listing.read().split()]
        if not children:
            return
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.001)


if __name__ == "__main__":
    main(sys.argv[1:])
