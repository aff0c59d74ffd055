"""What the CPU is, and how much of it this process may use.

What is built with `-march=native` for one CPU can crash on another.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
from pathlib import Path

#: Lines of /proc/cpuinfo that tell CPUs apart, on x86 and on ARM; the others vary with the load.
IDENTITY = ("model name", "flags", "CPU implementer", "CPU variant", "CPU part", "Features")


@functools.cache
def digest() -> str:
    """Eight hex digits for this machine's CPU."""
    with contextlib.suppress(OSError):
        return digest_of(Path("/proc/cpuinfo").read_text(errors="replace"))
    return digest_of("")


def digest_of(cpuinfo: str) -> str:
    """Eight hex digits for the architecture and the first CPU that a /proc/cpuinfo lists."""
    lines = cpuinfo.split("\n\n")[0].splitlines()
    identity = [line for line in lines if line.split(":")[0].strip() in IDENTITY]
    text = "\n".join([platform.machine(), *identity])
    return hashlib.sha256(text.encode()).hexdigest()[:8]


_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def cores() -> int:
    """How many cores this thread may keep busy: by its affinity, and by a container's quota."""
    count = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError):
        quota, period = _QUOTA.read_text().split()
        count = min(count, max(1, int(quota) // int(period)))  # "max": no quota, a ValueError
    return count


def siblings(core: int) -> frozenset[int]:
    """The logical cores that share a physical one with `core`, itself included."""
    path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
    with contextlib.suppress(OSError, ValueError):
        parts = [part.split("-") for part in path.read_text().strip().split(",")]
        return frozenset(n for part in parts for n in range(int(part[0]), int(part[-1]) + 1))
    return frozenset({core})
