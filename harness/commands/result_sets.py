"""Files of published result sets -> rows: JSON Lines, or JSON however it is nested.

A row is an object with a candidate's source. Objects in lists within an object are rows as well,
each with what stands around it; parts of an object within an object are its own. Columns are known
by the names that sets use (`COLUMNS`), in any case of letters, at any depth.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.errors import RequestError

#: What a column holds -> the names that sets give it, the likeliest first.
COLUMNS: dict[str, tuple[str, ...]] = {
    "reference": (
        *("reference", "ref_code", "reference_code", "reference_source", "ref_arch_src"),
        *("PyTorch_Code_Module", "pytorch_code", "original_model_src", "problem_code"),
    ),
    "candidate": (
        *("candidate", "custom_code", "kernel", "kernel_code", "kernel_src", "solution"),
        *("solution_code", "custom_model_src", "generated_code", "generated_kernel"),
        *("completion", "response", "CUDA_Code", "code"),
    ),
    "functional": ("PyTorch_Code_Functional",),
    "level": ("level", "level_id"),
    "number": ("problem_id", "task_id"),
    "name": ("problem_name", "problem", "ref_arch_name", "Op_Name", "name"),
    "sample": ("sample_id", "sample", "Kernel_Name", "model", "model_name"),
}
_LEVEL = r"(?:level[ _]?)?(\d{1,9})(?:\.0)?"
_LEVEL_FIRST = re.compile(r"level[ _]?(\d{1,9})[\s:/_-]+(?=\S)", re.IGNORECASE)  # of a name


class Row:
    """A row's columns. `chosen`: a key of `COLUMNS` -> the name of its column in this set."""

    def __init__(self, values: Mapping[str, Any], chosen: Mapping[str, str]) -> None:
        self.values = dict(_parts(values))
        self._chosen = chosen
        self._columns: dict[str, str] = {}
        # Of several by one name that which holds something counts, and of those the outermost.
        for path in sorted(self.values, key=lambda p: (self.values[p] is None, p.count("."))):
            for name in (path, path.rpartition(".")[2]):
                self._columns.setdefault(name.lower(), path)

    def __contains__(self, key: str) -> bool:
        return self._column(key) is not None

    def _column(self, key: str) -> str | None:
        names = (self._chosen[key],) if key in self._chosen else COLUMNS[key]
        return next((self._columns[n.lower()] for n in names if n.lower() in self._columns), None)

    def texts(self, key: str) -> list[str]:
        """A text for each value of a column that holds a list, else one; "" where there is none."""
        column = self._column(key)
        value = None if column is None else self.values[column]
        return [_text(one) for one in (value if isinstance(value, list) else [value])]

    @property
    def lacks(self) -> str:
        """What to do about a row without a candidate; the longest texts are the likeliest."""
        names = self._chosen.get("candidate") or ", ".join(COLUMNS["candidate"])
        known = sorted(self.values, key=lambda name: -len(str(self.values[name])))
        own = ", ".join(known[:12])
        return f"it has none of the columns {names}; name one of its own with --candidate: {own}"

    def text(self, key: str) -> str:
        return next(iter(self.texts(key)), "")

    def number(self, key: str) -> int | None:
        found = re.fullmatch(_LEVEL, self.text(key), re.IGNORECASE)
        return int(found[1]) if found else None

    @property
    def level(self) -> int | None:
        """Of the problem: a column's, or what its name begins with."""
        named = _LEVEL_FIRST.match(self.text("name"))
        return int(named[1]) if named and "level" not in self else self.number("level")

    @property
    def task(self) -> int | None:
        """The problem's number: a column's, or what its name begins with."""
        named = re.match(r"(\d{1,9})[_ ]", self.name)
        return int(named[1]) if named and "number" not in self else self.number("number")

    @property
    def name(self) -> str:
        """Of the problem, without its level."""
        return _LEVEL_FIRST.sub("", self.text("name"), count=1).removesuffix(".py")


def _parts(values: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    """`a.b` and what it holds, for the part b of the object a."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _parts(value, f"{within}{name}.")
        else:
            yield f"{within}{name}", value


def _text(value: Any) -> str:
    """Half of a surrogate pair, as a text that was cut has it, is replaced: no file can hold it."""
    text = "" if value is None else str(value)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def read(path: Path, chosen: Mapping[str, str]) -> Iterator[tuple[int, Row | str]]:
    """(number, row), or what is wrong with it. Raises `RequestError`.

    `number`: of the line, or of the row in a file that is one JSON value.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise RequestError(f"cannot read {path}: {error.strerror}") from None
    try:
        whole = json.loads(text)
    except ValueError:
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                for row in _in_line(line, chosen):
                    yield number, row
        return
    yield from enumerate(_within(whole, {}, chosen), 1)


def _in_line(line: str, chosen: Mapping[str, str]) -> Iterator[Row | str]:
    try:
        value = json.loads(line)
    except ValueError as error:
        yield f"it is not JSON ({error})"
        return
    yield from _within(value, {}, chosen)


def _within(value: Any, around: dict[str, Any], chosen: Mapping[str, str]) -> Iterator[Row | str]:
    """The rows in a JSON value that stands within `around`."""
    if isinstance(value, list):
        for one in value:
            yield from _within(one, around, chosen)
    elif not isinstance(value, dict):
        yield "it is not an object"
    else:
        row = Row(around | value, chosen)
        lists = {key: part for key, part in value.items() if _is_rows(part)}
        if "candidate" in row or not lists:
            yield row
            return
        rest = around | {key: part for key, part in value.items() if key not in lists}
        found = []
        for key, part in lists.items():
            level = {"level": key} if re.fullmatch(_LEVEL, key, re.IGNORECASE) else {}
            found.append(list(_within(part, rest | level, chosen)))
        meant = [rows for rows in found if any("candidate" in row for row in rows)]
        yield from itertools.chain(*(meant or found))  # a conversation beside them is no row


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(one, dict) for one in value)
