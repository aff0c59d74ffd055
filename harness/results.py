"""CSV rows in and out, what is already done, and raw samples.

Covers: one writer at a time, lines cut short by a crash, files of another schema, values that
read back as they were written. Does not cover: a disk that loses what it has synced.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import fcntl
import gzip
import hashlib
import io
import json
import logging
import os
import re
import shutil
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd

from harness import records
from harness.errors import MachineError, RequestError
from harness.records import (
    COLUMNS,
    MODE_FIELDS,
    MODES,
    Block,
    Environment,
    Epoch,
    Memory,
    ModeResult,
    Phase,
    Row,
    Status,
    Timing,
    Value,
    Verdict,
)

#: Version of the columns; a file of another one is moved aside, never appended to.
#: 1: first.
SCHEMA_VERSION = 1
#: What one result is about: of rows that agree in these, the newest counts.
KEY = ("problem", "solution", "size", "dtype", "device_name")
#: Verdicts that say nothing final about the solution, so that a resumed run tries again.
#: A timeout or a crash is final: `--fresh` repeats it.
NOT_DONE = (Status.HARNESS_ERROR, Status.REFERENCE_ERROR, Status.SKIPPED, Status.BUILT)
#: Column -> type of its values, from the records that they come from.
KINDS: dict[str, str] = (
    dict.fromkeys(COLUMNS, "float | None")
    | dict.fromkeys((*records.VERDICT_COLUMNS, "flags"), "str")
    | {
        field.name: str(field.type)
        for record in (Row, Environment)
        for field in dataclasses.fields(record)
        if field.name in COLUMNS and field.name not in ("flags", "log")
    }
    | {
        f"{mode}_{field.name}": str(field.type)
        for mode in MODES
        for field in dataclasses.fields(ModeResult)
    }
)
MAX_STEM = 72  # characters of a file name without its suffix

_log = logging.getLogger(__name__)
csv.field_size_limit(1 << 24)  # the default, 128 KiB, would refuse a long message


# --- lines --------------------------------------------------------------------------------------


def _line(values: list[Value]) -> bytes:
    """One CSV line. A NUL, which a CSV cannot hold, becomes `\\x00` spelled out."""
    buffer = io.StringIO(newline="")
    texts = ("" if v is None or v != v else str(v).replace("\0", "\\x00") for v in values)
    csv.writer(buffer, lineterminator="\n").writerow(texts)
    return buffer.getvalue().encode("utf-8", "backslashreplace")


_HEADER = _line(list(COLUMNS))


def _value(kind: str, text: str) -> Value:
    """A field's value; empty is missing where the column can be. `ValueError` if no number."""
    if text == "" and kind.endswith("None"):
        return None
    if kind.startswith("int"):
        return int(text)
    return float(text) if kind.startswith("float") else text


def _records(data: bytes) -> Iterator[tuple[bytes, list[str] | None]]:
    """(bytes, fields) of each record; fields is None for a line that is none, cut short say."""
    lines = data.splitlines(keepends=True)
    start = 0
    while start < len(lines):
        end, quotes = start, 0
        while end < len(lines):
            quotes += lines[end].count(b'"')
            end += 1
            if quotes % 2 == 0:  # else a quoted field goes on in the next line
                break
        fields = _fields(b"".join(lines[start:end]))
        end = start + 1 if fields is None else end
        yield b"".join(lines[start:end]), fields
        start = end


def _fields(record: bytes) -> list[str] | None:
    if not record.endswith(b"\n") or b"\0" in record:
        return None
    try:
        rows = list(csv.reader(io.StringIO(record.decode("utf-8-sig"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error):
        return None
    return rows[0] if len(rows) == 1 else None


@dataclass(frozen=True, kw_only=True)
class _Table:
    """A results file taken apart: what can be used, and the bytes that cannot."""

    header: list[str]
    rows: list[dict[str, Value]]
    good: bytes
    bad: bytes

    @property
    def current(self) -> bool:
        """Whether the columns are this version's."""
        return self.header == list(COLUMNS)


def _table(data: bytes) -> _Table:
    if not data or (b"\n" not in data and _HEADER.startswith(data)):
        return _Table(header=list(COLUMNS), rows=[], good=b"", bad=data)
    scanned = _records(data)
    first, header = next(scanned)
    rows: list[dict[str, Value]] = []
    good, bad = [first], list[bytes]()
    for record, fields in scanned:
        try:
            if fields:  # an empty line is nobody's loss
                pairs = zip(header or [], fields, strict=True)
                rows.append({c: _value(KINDS[c], text) for c, text in pairs if c in KINDS})
            (bad if fields is None else good).append(record)
        except ValueError:
            bad.append(record)
    return _Table(header=header or [], rows=rows, good=b"".join(good), bad=b"".join(bad))


# --- files --------------------------------------------------------------------------------------


@contextlib.contextmanager
def _locked(path: Path, mode: str) -> Iterator[BinaryIO]:
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


def _write(path: Path, mode: str, data: bytes) -> None:
    with path.open(mode) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def append(path: Path, row: Row) -> None:
    """Add `row` as one line that is on the disk when this returns.

    A line cut short by a crash is first set aside in NAME.csv.partial, and a file of another
    schema is moved to NAME.schemaN.csv; both are logged as warnings. Raises `MachineError`
    where the file cannot be written.
    """
    values = row.flat()
    line = _line([values[column] for column in COLUMNS])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        while not _added(path, line):
            with contextlib.suppress(FileNotFoundError):  # another process moved it already
                _mend(path)
    except OSError as error:
        raise MachineError(
            f"cannot write {path}: {error.strerror}; make room for it, or name another --output"
        ) from None


def _added(path: Path, line: bytes) -> bool:
    """Append `line`, after a header where there is none; False if the file needs mending."""
    with _locked(path, "a+b") as file:
        file.seek(0)
        table = _table(file.read())
        if table.bad or not table.current:
            return False
        file.write(line if table.good else _HEADER + line)
        file.flush()
        os.fsync(file.fileno())
        return True


def _mend(path: Path) -> None:
    """Set aside what cannot be appended to: damaged lines, a whole file. Raises `OSError`."""
    with _locked(path, "r+b") as file:
        table = _table(file.read())
        if not table.current:
            number = table.rows[-1].get("schema_version") if table.rows else None
            aside = _free(path.with_name(f"{path.stem}.schema{number or 0}{path.suffix}"))
            path.rename(aside)
            _log.warning("%s has other columns: moved to %s", path, aside.name)
        elif table.bad:
            partial = path.with_name(f"{path.name}.partial")
            _write(partial, "ab", table.bad.rstrip(b"\n") + b"\n")
            whole = path.with_name(f".{path.name}.{os.getpid()}")
            _write(whole, "wb", table.good)
            shutil.copymode(path, whole)
            whole.replace(path)
            lines = table.bad.rstrip(b"\n").count(b"\n") + 1
            _log.warning("%s: %d damaged line(s) set aside in %s", path, lines, partial.name)


def _free(path: Path) -> Path:
    """`path`, or the first of NAME.2, NAME.3, ... that does not exist."""
    number, free = 1, path
    while free.exists():
        number += 1
        suffix = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
        free = path.with_name(f"{path.name.removesuffix(suffix)}.{number}{suffix}")
    return free


def read(path: Path) -> pd.DataFrame:
    """The rows of a results file, typed; missing is None in text and NaN or NA in numbers.

    Damaged lines are set aside as `append` does, or only left out where the folder cannot be
    written. A file of another schema keeps the columns that this one knows.
    Raises `RequestError` where there is no such file, or it is none of ours.
    """
    try:
        with _locked(path, "rb") as file:
            table = _table(file.read())
    except OSError as error:
        raise RequestError(f"cannot read results from {path}: {error.strerror}") from None
    if not set(KEY) <= set(table.header):
        raise RequestError(f"{path} is no results file: it lacks the columns {', '.join(KEY)}")
    if table.bad:
        mended = False
        with contextlib.suppress(OSError):  # a folder that only others may write
            if table.current:
                _mend(path)
                mended = True
        if not mended:
            _log.warning("%s: damaged lines are left out", path)
    return _frame(table.rows)


def _frame(rows: list[dict[str, Value]]) -> pd.DataFrame:
    columns: dict[str, pd.Series] = {}
    for name in COLUMNS:
        kind = KINDS[name]
        # Plain objects for text: what pandas infers differs by version, and loses None.
        dtype = "Int64" if kind[:3] == "int" else "float64" if kind[:5] == "float" else "object"
        columns[name] = pd.Series([row.get(name) for row in rows], dtype=dtype)
    frame: pd.DataFrame = pd.DataFrame(columns)
    return frame


def plain(frame: pd.DataFrame) -> list[dict[str, Value]]:
    """The rows as dictionaries of plain Python values, missing as None, as `Row.flat` has it."""
    return [
        {
            str(name): None if pd.isna(value) else getattr(value, "item", lambda v=value: v)()
            for name, value in row.items()
        }
        for row in frame.to_dict("records")
    ]


# --- what counts --------------------------------------------------------------------------------


def latest(frame: pd.DataFrame) -> pd.DataFrame:
    """The newest row of each `KEY` by `time`; of equal times the later line. Order is kept."""
    frame = frame.reset_index(drop=True)
    by_time = frame.sort_values("time", kind="stable", na_position="first")
    newest: pd.DataFrame = by_time.drop_duplicates(subset=list(KEY), keep="last").sort_index()
    return newest


def find_done(
    frame: pd.DataFrame,
    *,
    problem: str,
    solution: str,
    problem_digest: str,
    solution_digest: str,
    size: str,
    dtype: str,
    device_name: str,
    settings_digest: str,
    harness_version: str | None = None,
) -> dict[str, Value] | None:
    """The newest row that settles this evaluation, as `plain` has it; None: it is to be done.

    All that is given must agree. `NOT_DONE` verdicts settle nothing.
    """
    wanted = {name: value for name, value in locals().items() if name != "frame"}
    keep = ~frame["status"].isin([status.value for status in NOT_DONE])
    for name, value in wanted.items():
        if value is not None:
            keep &= frame[name] == value
    rows = plain(latest(frame[keep]))
    return rows[-1] if rows else None


def to_row(values: Mapping[str, Value]) -> Row:
    """The `Row` whose `flat()` is `values`. Raises `ValueError` for an unknown status."""
    any_of: dict[str, Any] = dict(values)
    modes = {
        mode: ModeResult(**{field: any_of[f"{mode}_{field}"] for field in MODE_FIELDS})
        for mode in MODES
    }
    sides = [
        Memory(
            **{
                f"{name}_peak_mib": any_of[f"{side}{name}_peak_mib"]
                for name in ("inference", "training")
            }
        )
        for side in ("", "reference_")
    ]
    kept = (*records.IDENTITY_COLUMNS, *records.TAIL_COLUMNS[4:], "log")
    return Row(
        **{column: any_of[column] for column in kept if column != "flags"},
        environment=Environment(**{c: any_of[c] for c in records.ENVIRONMENT_COLUMNS}),
        verdict=Verdict(
            status=Status(any_of["status"]),
            phase=Phase(any_of["phase"]),
            message=any_of["message"],
        ),
        modes={mode: result for mode, result in modes.items() if result != ModeResult()},
        memory=None if sides[0] == Memory() else sides[0],
        reference_memory=None if sides[1] == Memory() else sides[1],
        flags=tuple(any_of["flags"].split()),
    )


# --- names and raw samples ----------------------------------------------------------------------


def file_for(device_name: str, folder: Path) -> Path:
    """The CSV of a device: its name with `_` for spaces, and a hash where more was lost."""
    return folder / f"{_slug(device_name)}.csv"


def _slug(name: str) -> str:
    slug = re.sub(r"[^A-Za-z0-9.+-]+", "_", name)[:MAX_STEM]
    if slug.replace("_", " ") == name and re.match(r"[A-Za-z0-9]", slug):
        return slug
    code = hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return f"{slug[: MAX_STEM - 9].strip('_.+-') or 'device'}-{code}"


def save_raw(folder: Path, run_id: str, timings: Mapping[str, Timing]) -> Path:
    """Write every sample (ms) to `folder`/<run id>.json.gz (results/raw); never over another file.

    Raises `MachineError` where it cannot be written.
    """
    content = {"run_id": run_id, "timings": {m: dataclasses.asdict(t) for m, t in timings.items()}}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = _free(folder / f"{_slug(run_id)}.json.gz")
        _write(path, "xb", gzip.compress(json.dumps(content).encode(), mtime=0))
    except OSError as error:
        raise MachineError(f"cannot write raw samples to {folder}: {error.strerror}") from None
    return path


def load_raw(path: Path) -> dict[str, Timing]:
    """What `save_raw` wrote. Raises `RequestError` where `path` is no such file."""
    try:
        stored = json.loads(gzip.decompress(path.read_bytes()))["timings"]
        return {mode: _timing(value) for mode, value in stored.items()}
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise RequestError(f"cannot read raw samples from {path}: {error}") from None


def _blocks(stored: list[dict[str, Any]]) -> tuple[Block, ...]:
    return tuple(Block(**{side: tuple(ms) for side, ms in block.items()}) for block in stored)


def _timing(stored: dict[str, Any]) -> Timing:
    epochs = tuple(
        Epoch(
            blocks=_blocks(epoch["blocks"]),
            disturbed=_blocks(epoch["disturbed"]),
            wall_s=epoch["wall_s"],
        )
        for epoch in stored["epochs"]
    )
    return Timing(**{**stored, "epochs": epochs, "flags": tuple(stored["flags"])})
