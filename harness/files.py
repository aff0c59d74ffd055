"""Files that processes share: names that never clash, locks, writes that are on the disk."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

MAX_STEM = 72  # characters of a file name without its suffix


def safe_name(name: str) -> str:
    """`name` with `_` for spaces, and a hash where more was lost: short, and never shared."""
    slug = re.sub(r"[^A-Za-z0-9.+-]+", "_", name)[:MAX_STEM]
    if slug.replace("_", " ") == name and re.match(r"[A-Za-z0-9]", slug):
        return slug
    code = hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return f"{slug[: MAX_STEM - 9].strip('_.+-') or 'device'}-{code}"


def unused(path: Path) -> Path:
    """`path`, or the first of NAME.2, NAME.3, ... that does not exist."""
    number, found = 1, path
    while found.exists():
        number += 1
        suffix = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
        found = path.with_name(f"{path.name.removesuffix(suffix)}.{number}{suffix}")
    return found


@contextlib.contextmanager
def locked(path: Path, mode: str) -> Iterator[BinaryIO]:
    """`path` open and locked: shared to read, else alone, in this process and all others."""
    while True:
        file: BinaryIO = path.open(mode)  # type: ignore[assignment]
        fcntl.flock(file, fcntl.LOCK_SH if mode == "rb" else fcntl.LOCK_EX)
        # While we waited, the holder may have put another file in this one's place.
        if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
            break
        file.close()
    with file:
        yield file


def write(path: Path, mode: str, data: bytes) -> None:
    """Write `data`, which is on the disk when this returns."""
    with path.open(mode) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
