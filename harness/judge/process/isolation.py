"""Strict isolation: a worker in namespaces of its own, by bubblewrap from the distribution.

In it a worker sees no process but its own and has no network; the file system is read-only but
for its folder and its build cache; temporary and run-time folders (sockets live there) are
empty; no privilege can be regained. GPU devices are passed through.

Not covered: what is readable stays readable, as results of earlier runs; the GPU's driver; how
much memory, disk or processor time a worker takes.
"""

from __future__ import annotations

import functools
import glob
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from harness.errors import MachineError

PROCESS = "process"
BUBBLEWRAP = "bubblewrap"
_DEVICES = ("/dev/nvidia*", "/dev/nvidia-caps", "/dev/dri", "/dev/kfd", "/dev/dxg")
_HIDDEN = ("/tmp", "/var/tmp", "/run")
_NAMESPACES = (
    *("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
    *("--cap-drop", "ALL", "--die-with-parent"),
)
_TRIAL_S = 20.0


def choose(sandbox: str) -> str:
    """The isolation that the setting `sandbox` comes to here: `PROCESS` or `BUBBLEWRAP`.

    Raises `MachineError` where `strict` is asked for and cannot be had.
    """
    try:
        tempfile.gettempdir()
    except FileNotFoundError as error:
        text = "set TMPDIR to a folder that can be written"
        raise MachineError(f"no folder for temporary files: {text} ({error.strerror})") from None
    if sandbox == "default":
        return PROCESS
    problem = unusable()
    if problem is None:
        return BUBBLEWRAP
    if sandbox == "strict":
        raise MachineError(f"--sandbox strict cannot be had here: {problem}")
    return PROCESS


@functools.cache
def unusable() -> str | None:
    """Why bubblewrap cannot be used here, in a line that says what to do; None where it can."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed (Debian, Ubuntu: apt install bubblewrap)"
    with tempfile.TemporaryDirectory(prefix="harness-") as folder:
        command = [*jail(Path(folder), writable=(Path(folder),)), sys.executable, "-I", "-S"]
        try:
            run = subprocess.run(
                [*command, "-c", "open('here', 'w')"],
                capture_output=True,
                text=True,
                timeout=_TRIAL_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"bubblewrap cannot be run: {error}"
    if run.returncode == 0:
        return None
    said = (run.stderr.strip().splitlines() or [f"status {run.returncode}"])[0]
    return (
        f"bubblewrap is installed but cannot make namespaces ({said}); allow user namespaces "
        "(sysctl kernel.apparmor_restrict_unprivileged_userns=0), or in a container start it with "
        "--security-opt seccomp=unconfined --security-opt systempaths=unconfined"
    )


def jail(folder: Path, *, writable: Iterable[Path], readable: Iterable[Path] = ()) -> list[str]:
    """The command to put before a worker's own. It begins in `folder`; `readable` names what has
    to be seen even where it lies in a folder that is hidden."""
    bwrap = shutil.which("bwrap") or "bwrap"
    hidden = dict.fromkeys([*_HIDDEN, tempfile.gettempdir()])
    command = [bwrap, *_NAMESPACES, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for pattern in _DEVICES:
        for device in sorted(glob.glob(pattern)):
            command += ["--dev-bind", device, device]
    for path in hidden:
        if Path(path).is_dir():
            command += ["--tmpfs", path]
    needed = [*readable, Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve()]
    for visible in needed:
        if any(visible.is_relative_to(path) for path in hidden) and visible.exists():
            command += ["--ro-bind", str(visible), str(visible)]
    for own in writable:
        own.mkdir(parents=True, exist_ok=True)
        command += ["--bind", str(own), str(own)]
    return [*command, "--chdir", str(folder), "--"]
