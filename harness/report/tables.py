"""Rows -> tables. Everything returns renderables or plain data; only terminal.py prints.

Covers: the verdict table, its formatters, the rows of `--json`. Text that a solution wrote
(messages) is shown as text: neither markup nor terminal codes in it take effect.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TypeGuard

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from harness.records import Row, Status, Value

NOTHING = "-"  # what was not measured, or is not credited
#: Modes that a table may take its times from, and how it calls them: the first that was timed.
HEADLINES = {"forward_backward": "", "forward": "forward ", "backward": "backward "}
#: Column -> its header, in order.
COLUMNS = {
    "solution": "solution",
    "verdict": "verdict",
    "forward": "forward",
    "backward": "backward",
    "forward_backward": "both",
    "compile": "vs com-\npiled",
    "time": "time of both,\nref. → sol.",
    "limit": "of\nlimit",
    "memory": "training peak,\nsolution/ref.",
}
#: Columns that a narrow table may go without; those named first are kept first.
OPTIONAL = ("time", "backward", "memory", "compile", "limit")
SPEEDUPS = ("forward", "forward_backward")  # shown wherever anything was timed
NAME_WIDTH = 20  # characters; a longer solution's name is folded

Units = tuple[tuple[float, str], ...]
TIME: Units = ((1000.0, "s"), (1.0, "ms"), (0.001, "us"))  # of a value in ms
MEMORY: Units = ((1024.0, "GiB"), (1.0, "MiB"), (1 / 1024, "KiB"))  # of a value in MiB

_UNPRINTABLE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]+")
#: For terminals that cannot show these.
ASCII = str.maketrans({"±": "+-", "→": "->"})


# --- formatters: the only places where a unit is converted ----------------------------------------


def speedup(ratio: Value, low: Value = None, high: Value = None) -> str:
    """`2.01 ±0.01`: a ratio with its 95 % interval, and only digits that the interval carries.

    The half-width has one digit and is rounded up; the ratio ends at the same place, with two
    decimals at most (under 1: three digits). Without an interval: `2.0 ±?`.
    """
    if not is_number(ratio):
        return NOTHING
    size = math.floor(math.log10(abs(ratio))) if ratio else 0
    if not (is_number(low) and is_number(high)):
        return f"{_at(ratio, 1 - size)} ±?"
    half = max(ratio - low, high - ratio, sys.float_info.min)
    most = max(2, 2 - size)
    places = min(most, -math.floor(math.log10(half)))
    # The inner rounding keeps 0.03 * 100 from being a little over 3.
    half = max(1, math.ceil(round(half * 10.0**places, 6))) / 10.0**places
    places = min(most, -math.floor(math.log10(half)))  # 0.095 became 0.1: one place less
    return f"{_at(ratio, places)} ±{_at(half, places)}"


def _at(number: float, places: int) -> str:
    """`number` to `places` decimals; negative places round to tens, hundreds."""
    return f"{round(number, places):.{max(places, 0)}f}"


def is_number(value: Value) -> TypeGuard[float]:
    """Whether it is a finite number."""
    return isinstance(value, int | float) and math.isfinite(value)


def _split(value: float, units: Units) -> tuple[str, str]:
    """Three significant digits of `value` in its best unit, and the unit."""
    rounded = float(f"{value:.3g}")
    factor, name = next((unit for unit in units if unit[0] <= abs(rounded)), units[-1])
    number = float(f"{value / factor:.3g}")
    places = 2 - math.floor(math.log10(abs(number))) if number else 0
    return _at(number, max(0, places)), name


def quantity(value: Value, units: Units) -> str:
    """`5.99 ms`, `870 us`, `4.10 GiB`; `-` for None."""
    return " ".join(_split(value, units)) if is_number(value) else NOTHING


def pair(first: Value, second: Value, units: Units, joint: str) -> str:
    """`5.99 → 1.99 ms`, or `5.99 ms → 870 us`; `-` where both are None."""
    texts = [quantity(value, units) for value in (first, second)]
    if texts == [NOTHING, NOTHING]:
        return NOTHING
    numbers = [text.split(" ") for text in texts]
    if numbers[0][-1] == numbers[1][-1]:
        texts[0] = numbers[0][0]
    return f"{texts[0]} {joint} {texts[1]}"


def digits(number: float) -> str:
    """Three significant digits: `3.40`, `0.918`, `123`."""
    return f"{number:#.3g}".rstrip(".")


def one_line(text: str) -> str:
    """`text` without line breaks, terminal codes or marks that turn the direction of writing."""
    return _UNPRINTABLE.sub(" ", text).strip()


# --- the verdict table --------------------------------------------------------------------------


def plain_rows(rows: Sequence[Row]) -> list[dict[str, Value]]:
    """The rows for `--json`: `Row.flat`, with None for what JSON has no number for."""
    return [
        {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in row.flat().items()
        }
        for row in rows
    ]


def verdict_table(rows: Sequence[Row]) -> RenderableType:
    """One table per problem, size, dtype and device, and below it why and what to know.

    Takes the width that it is printed at: columns nobody has a value for are left out, and
    where it is narrow, the last of `OPTIONAL`.
    """
    return _VerdictTables(rows)


class _VerdictTables:
    def __init__(self, rows: Sequence[Row]) -> None:
        self._groups: dict[str, list[Row]] = {}
        for row in rows:
            size = f"size {row.size}, " if row.size else ""  # none where nothing was run
            device = one_line(row.environment.device_name)
            title = f"{one_line(row.problem)}, {size}{row.dtype}, on {device}"
            self._groups.setdefault(title, []).append(row)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        def text(line: str, style: str = "") -> Text:
            return Text(line.translate(ASCII) if options.ascii_only else line, style=style)

        for title, rows in self._groups.items():
            yield text(title, "bold")
            yield _fitting(rows, text, console, options)
            yield from (text(note) for row in rows for note in _notes(row))
            yield text("")


def headline(flat: Mapping[str, Value]) -> str:
    """The mode that a table takes times from: the first of `HEADLINES` that was timed."""
    timed = (mode for mode in HEADLINES if is_number(flat[f"{mode}_solution_ms"]))
    return next(timed, "forward_backward")


def cells(flat: Mapping[str, Value]) -> dict[str, str]:
    """Column -> text. Only speedups that the verdict credits are among a flat row's values."""
    mode = headline(flat)
    limit, compiled = flat[f"{mode}_limit_fraction"], f"{mode}_compile_speedup"
    bounds = flat[f"{mode}_compile_low"], flat[f"{mode}_compile_high"]
    times = pair(flat[f"{mode}_reference_ms"], flat[f"{mode}_solution_ms"], TIME, "→")
    peaks = flat["training_peak_mib"], flat["reference_training_peak_mib"]
    return {
        "solution": one_line(str(flat["solution"])),
        "verdict": one_line(str(flat["status"])),
        **{
            mode: speedup(flat[f"{mode}_speedup"], flat[f"{mode}_low"], flat[f"{mode}_high"])
            for mode in ("forward", "backward", "forward_backward")
        },
        # Without its interval, for want of room, but with no more digits than that carries.
        "compile": speedup(flat[compiled], *bounds).split(" ±")[0],
        "time": HEADLINES[mode] + times if times != NOTHING else NOTHING,
        "limit": f"{limit:.0%}" if is_number(limit) else NOTHING,
        "memory": pair(*peaks, MEMORY, "/"),
    }


def _notes(row: Row) -> list[str]:
    """The lines below the table: why a row did not pass, where its log is, its flags."""
    name, message = one_line(row.solution), one_line(row.verdict.message)
    notes = []
    if message or row.verdict.status is not Status.PASS:
        log = f" (log: {one_line(row.log)})" if row.log else ""
        notes.append(f"{name}: {message or row.verdict.status.value}{log}")
    if row.flags:
        notes.append(f"{name}: flags: {', '.join(map(one_line, row.flags))}")
    return notes


def _fitting(
    rows: list[Row], text: Callable[..., Text], console: Console, options: ConsoleOptions
) -> Table:
    """The table with as many columns as fit, two spaces apart if all of them do."""
    texts = [cells(row.flat()) for row in rows]
    filled = {key for values in texts for key, value in values.items() if value != NOTHING}

    def table(without: set[str], gap: int) -> Table:
        made = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
        shown = [key for key in COLUMNS if key not in without]
        for key in shown:
            _add_column(made, key, text(COLUMNS[key]))
        for row, values in zip(rows, texts, strict=True):
            styles = {"verdict": _style(row)}
            made.add_row(*(text(values[key], styles.get(key, "")) for key in shown))
        return made

    def fits(made: Table) -> bool:
        unbounded = options.update(max_width=10_000)
        return Measurement.get(console, unbounded, made).maximum <= options.max_width

    # A speedup that was measured and is not credited is shown as missing.
    empty = {*OPTIONAL, *(() if "time" in filled else SPEEDUPS)} - filled
    if fits(spacious := table(empty, 2)):
        return spacious
    without = {*empty, *OPTIONAL}
    for key in OPTIONAL:
        if key in filled and fits(table(without - {key}, 1)):
            without -= {key}
    return table(without, 1)


def _add_column(table: Table, key: str, header: Text) -> None:
    if key == "solution":
        table.add_column(header, overflow="fold", min_width=8, max_width=NAME_WIDTH)
    else:
        table.add_column(header, justify="left" if key == "verdict" else "right", no_wrap=True)


def _style(row: Row) -> str:
    return "green" if row.verdict.status is Status.PASS else "dim" if row.fine else "red"
