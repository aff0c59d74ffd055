"""Results files: rows in and out, and what is already done.

Covers: one writer at a time, lines cut short by a crash, files of another schema. Does not
cover: a disk that loses what it has synced.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd

from harness import files, lines, records
from harness.errors import MachineError, RequestError
from harness.records import (
    COLUMNS,
    MODE_FIELDS,
    MODES,
    Environment,
    Memory,
    ModeResult,
    Phase,
    Row,
    Status,
    Value,
    Verdict,
)
from harness.wording import counted

#: Version of the columns, in each row. A file that lacks some of them gets them, empty, before a
#: row is added; one that has others is moved aside.
#: 1: first. 2: least_bytes, least_flops and bound of each mode. 3: settings.
SCHEMA_VERSION = 3
#: What one result is about: of rows that agree in these, the newest counts.
KEY = ("problem", "solution", "size", "dtype", "device_name")
#: Columns without which a file is no results file.
REQUIRED = (*KEY, "status")
#: Verdicts that say nothing final about the solution, so that a resumed run tries again.
#: A timeout or a crash is final: `--fresh` repeats it.
NOT_DONE = (Status.HARNESS_ERROR, Status.REFERENCE_ERROR, Status.SKIPPED, Status.BUILT)

#: File -> its state after this process has added a row: it need not be read again, which takes
#: half a second at 10,000 rows.
_sound: dict[str, tuple[int, int, int]] = {}
_log = logging.getLogger(__name__)


def file_for(device_name: str, folder: Path) -> Path:
    """The CSV of a device, whatever it is called."""
    return folder / f"{files.safe_name(device_name)}.csv"


def append(path: Path, row: Row) -> None:
    """Add `row` as one line that is on the disk when this returns.

    A line cut short by a crash is first set aside in NAME.csv.partial, and a file with columns that
    are not known here is moved to NAME.schemaN.csv; both are logged as warnings. Columns that an
    earlier version did not have are added. Raises `MachineError` where the file cannot be written.
    """
    values = row.flat()
    line = lines.encode([values[column] for column in COLUMNS])
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
    with files.locked(path, "a+b") as file:
        empty = False
        if _sound.get(str(path)) != _state(file):
            file.seek(0)
            table = lines.decode(file.read())
            if table.bad or not table.current:
                return False
            empty = not table.good
        file.write(lines.HEADER + line if empty else line)
        file.flush()
        os.fsync(file.fileno())
        _sound[str(path)] = _state(file)
        return True


def _state(file: BinaryIO) -> tuple[int, int, int]:
    """Which file it is, and which contents it has."""
    stat = os.fstat(file.fileno())
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _mend(path: Path) -> None:
    """Set aside what cannot be appended to: damaged lines, a whole file. Raises `OSError`."""
    with files.locked(path, "r+b") as file:
        table = lines.decode(file.read())
        if table.earlier and not table.bad:
            values = [[row.get(column) for column in COLUMNS] for row in table.rows]
            files.replace(path, lines.HEADER + b"".join(map(lines.encode, values)))
        elif table.bad and (table.current or table.earlier):
            partial = path.with_name(f"{path.name}.partial")
            files.write(partial, "ab", table.bad.rstrip(b"\n") + b"\n")
            files.replace(path, table.good)
            _log.warning("%s: %s set aside in %s", path, _damaged(table.bad), partial.name)
        elif not table.current:
            number = table.rows[-1].get("schema_version") if table.rows else None
            aside = files.unused(path.with_name(f"{path.stem}.schema{number or 0}{path.suffix}"))
            path.rename(aside)
            _log.warning("%s has other columns: moved to %s", path, aside.name)


def _damaged(data: bytes) -> str:
    return counted(data.rstrip(b"\n").count(b"\n") + 1, "damaged line")


def read(path: Path) -> pd.DataFrame:
    """The rows of a results file, typed; missing is None in text and NaN or NA in numbers.

    The file stays as it is: damaged lines are left out, with a warning (`append` sets them aside).
    A file of another schema keeps the columns that this one knows.
    Raises `RequestError` where there is no such file, or it is none of ours.
    """
    try:
        with files.locked(path, "rb") as file:
            table = lines.decode(file.read())
    except OSError as error:
        raise RequestError(f"cannot read results from {path}: {error.strerror}") from None
    if lacking := [name for name in REQUIRED if name not in table.header]:
        raise RequestError(f"{path} is no results file: it lacks the columns {', '.join(lacking)}")
    if table.bad:
        _log.warning("%s: %s left out", path, _damaged(table.bad))
    return frame_of(table.rows)


def frame_of(rows: Iterable[Mapping[str, Value]]) -> pd.DataFrame:
    """Flat rows as a typed frame with the columns of a results file."""
    rows = list(rows)
    columns: dict[str, pd.Series] = {}
    for name in COLUMNS:
        kind = lines.KINDS[name]
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


def latest(frame: pd.DataFrame, key: Sequence[str] = KEY) -> pd.DataFrame:
    """The newest row of each `key` by `time`; of equal times the later line. Order is kept."""
    frame = frame.reset_index(drop=True)
    by_time = frame.sort_values("time", kind="stable", na_position="first")
    newest: pd.DataFrame = by_time.drop_duplicates(subset=list(key), keep="last").sort_index()
    return newest


class Done:
    """What the rows of earlier runs settle: taken apart once, to be asked for each solution."""

    def __init__(self, frame: pd.DataFrame) -> None:
        """`frame`: as `read` gives it. `NOT_DONE` verdicts settle nothing."""
        self._rows: dict[tuple[Value, Value], list[dict[str, Value]]] = {}
        final = ~frame["status"].isin([status.value for status in NOT_DONE])
        for row in plain(frame[final]):
            self._rows.setdefault((row["problem"], row["solution"]), []).append(row)

    def find(self, *, problem: str, solution: str, **others: str | None) -> dict[str, Value] | None:
        """The newest row that settles this evaluation, as `plain` has it; None: it is to be done.

        `others`: columns that have to agree too; None: with anything. Of equal times the later
        line counts.
        """
        wanted = {name: value for name, value in others.items() if value is not None}
        rows = [
            row
            for row in self._rows.get((problem, solution), ())
            if all(row[name] == value for name, value in wanted.items())
        ]
        return max(reversed(rows), key=lambda row: str(row["time"] or ""), default=None)


def require_known(values: Mapping[str, Value]) -> None:
    """Raises `RequestError` for a status or a phase that this version does not know."""
    for name, known in (("status", Status), ("phase", Phase)):
        if values[name] not in [one.value for one in known]:
            raise RequestError(
                f"the results hold a row with the {name} {values[name]!r}, which this version "
                "does not know: use the version that wrote it, or another file"
            )


def to_row(values: Mapping[str, Value]) -> Row:
    """The `Row` whose `flat()` is `values`.

    Raises `RequestError` for a status or a phase that this version does not know.
    """
    any_of: dict[str, Any] = dict(values)
    require_known(any_of)
    modes = {
        mode: ModeResult(**{field: any_of[f"{mode}_{field}"] for field in MODE_FIELDS})
        for mode in MODES
    }
    sides = [
        Memory(**{column: any_of[f"{side}{column}"] for column in records.PEAK_COLUMNS})
        for side in ("", "reference_")
    ]
    kept = (*records.IDENTITY_COLUMNS, *records.PLAIN_COLUMNS, "log")
    return Row(
        **{column: any_of[column] for column in kept},
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
