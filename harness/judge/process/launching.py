"""How a worker's process is started: forked of a server, or as a program, to the same state.

A fork server (`forkserver`) does it in a fraction of a second. With a jail a worker starts as a
program.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from harness import ROOT
from harness.judge.process import forkserver
from harness.judge.process.forkserver import ForkServer, ForkServerError, Place

_BOOTSTRAP = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); "
    "runpy.run_module('harness.worker', run_name='__main__', alter_sys=True)"
)
_WARDEN = Path(__file__).with_name("warden.py")


class Process(Protocol):
    """A warden, however it was started."""

    pid: int

    def terminate(self) -> None: ...

    def wait(self, timeout: float | None = None) -> int: ...


def launch(place: Place, *, jail: Sequence[str] = (), server: ForkServer | None = None) -> Process:
    """A worker's warden, in `place`; `jail`: the command to put before the worker's own."""
    forked = _fork(server, place) if server and not jail else None
    return forked or _execute(jail, place)


def _fork(server: ForkServer, place: Place) -> Process | None:
    """A worker of the server's; None where it fails, and then no more is asked of it."""
    try:
        return server.start(_BOOTSTRAP, [str(ROOT)], place)
    except ForkServerError as error:
        forkserver.give_up(server, error)
        return None


def _execute(jail: Sequence[str], place: Place) -> Process:
    """A worker as a program of its own."""
    python, channel = (sys.executable, "-I"), place.channel.fileno()
    worker = (*python, "-c", _BOOTSTRAP, str(ROOT), str(channel))
    return subprocess.Popen(
        [*python, "-S", str(_WARDEN), *jail, *worker],
        cwd=place.folder,
        env=place.environment,
        stdin=subprocess.DEVNULL,
        stdout=place.log,
        stderr=place.log,
        pass_fds=(channel,),
        start_new_session=True,
    )
