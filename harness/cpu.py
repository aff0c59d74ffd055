"""What the CPU is, to what is built for it: `-march=native` code of one can crash on another."""

from __future__ import annotations

import contextlib
import functools
import hashlib
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
