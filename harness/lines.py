"""A row -> its line of a results file, and the bytes of a file -> typed rows.

Values read back as they were written, and a damaged line takes no other with it. A text that a
spreadsheet would run as a formula stands there with a `'` before it. Not covered: a spreadsheet
that is set to another separator, and so takes a cell apart.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

from harness import records
from harness.records import COLUMNS, MODES, Environment, ModeResult, Row, Value

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

#: How a text begins that a spreadsheet takes for a formula (`=cmd.py`), or strips until it does;
#: also such a text that is marked already, so that taking one `'` off gives back what was written.
_FORMULA = re.compile(r"'*[\s=+\-@＝＋－＠]")

csv.field_size_limit(1 << 24)  # the default, 128 KiB, would refuse a long message


def encode(values: list[Value]) -> bytes:
    """One CSV line. A NUL, which a CSV cannot hold, becomes `\\x00` spelled out."""
    buffer = io.StringIO(newline="")
    texts = (_text(v).replace("\0", "\\x00") for v in values)
    # What is quoted is what holds a character of the terminator: a lone \r has to be, too.
    csv.writer(buffer, lineterminator="\r\n").writerow(texts)
    return f"{buffer.getvalue()[:-2]}\n".encode("utf-8", "backslashreplace")


def _text(value: Value) -> str:
    """A field; empty where the value is missing."""
    if isinstance(value, str):
        return f"'{value}" if _FORMULA.match(value) else value
    return "" if value is None or value != value else str(value)


HEADER = encode(list(COLUMNS))


def _value(kind: str, text: str) -> Value:
    """A field's value; empty is missing where the column can be. `ValueError` if no number."""
    if text == "" and kind.endswith("None"):
        return None
    if kind.startswith("int"):
        return int(text)
    if kind.startswith("float"):
        return float(text)
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


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
class Table:
    """A results file taken apart: what can be used, and the bytes that cannot."""

    header: list[str]
    rows: list[dict[str, Value]]
    good: bytes
    bad: bytes

    @property
    def current(self) -> bool:
        """Whether the columns are this version's."""
        return self.header == list(COLUMNS)

    @property
    def earlier(self) -> bool:
        """Whether they are an earlier version's: these, in their order, but for some that may be
        empty."""
        lacking = [column for column in COLUMNS if column not in self.header]
        known = [column for column in COLUMNS if column in self.header]
        return (
            bool(lacking)
            and self.header == known
            and all(KINDS[column].endswith("None") for column in lacking)
        )


def decode(data: bytes) -> Table:
    """Take a results file apart."""
    if not data or (b"\n" not in data and HEADER.startswith(data)):
        return Table(header=list(COLUMNS), rows=[], good=b"", bad=data)
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
    return Table(header=header or [], rows=rows, good=b"".join(good), bad=b"".join(bad))
