"""Whether a disk is full, as judge and worker both say it."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

LITTLE_BYTES = 256 << 20  # a build that found a disk full has made some room since


def full(*places: Path | str) -> bool:
    """Whether the disk of any of these folders has next to no room, as far as they can be asked."""
    for place in places:
        with contextlib.suppress(OSError):
            if shutil.disk_usage(place).free < LITTLE_BYTES:
                return True
    return False
