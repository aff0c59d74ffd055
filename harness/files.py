"""Files that processes share: names that never clash, locks, files whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

MAX_STEM = 72  # characters of a file name without its suffix


def safe_name(name: str, *, most: int = MAX_STEM, underscore: str = " ") -> str:
    """`name` in `most` letters, digits and `._+-`, with a hash where anything was lost: never
    shared. Without one, `_` stands for `underscore`."""
    slug = re.sub(r"[^A-Za-z0-9.+-]+", "_", name)[:most]
    if slug.replace("_", underscore) == name and re.match(r"[A-Za-z0-9]", slug):
        return slug
    code = hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return f"{slug[: most - 9].strip('_.+-') or 'device'}-{code}"


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


def replace(path: Path, data: bytes) -> None:
    """Make `path` a file of `data`. Where that fails (`OSError`), what stood there still stands.

    What is no file, a pipe or `/dev/stdout`, is written to.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    path = path.resolve()  # a link stays one
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        write(part, "wb", data)
        if path.exists():
            shutil.copymode(path, part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write(path: Path, mode: str, data: bytes) -> None:
    """Write `data`, which is on the disk when this returns."""
    with path.open(mode) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
