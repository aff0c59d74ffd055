"""Starts the process that workers are forked of before the judge imports torch itself.

Both imports take seconds, and run side by side. Nothing that this module imports loads torch.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from harness.config import Settings
from harness.judge.process import forkserver, isolation, toolchain


def take(settings: Settings) -> None:
    """Start it, where these settings will need it. Raises `MachineError` as `isolation.choose`."""
    if not settings.warm_workers or isolation.choose(settings.sandbox) != isolation.PROCESS:
        return
    environment = toolchain.worker_environment(
        toolchain.find(), folder=Path(), visible_devices="", arch=None, max_jobs=1
    )
    with contextlib.suppress(OSError):  # it will be said when a worker is needed
        forkserver.shared({k: v for k, v in environment.items() if k not in forkserver.LATE})
