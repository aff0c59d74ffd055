"""A comparison -> tables for a terminal, or Markdown.

A grid has one block of columns a side. On a terminal as many blocks stand side by side as fit
the width, `WIDTH` at most; the others follow below. Sides go by a letter, which a legend explains.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from harness.report.changes import Change, Kind, RunPair
from harness.report.comparison import Comparison, Entry
from harness.report.sides import Difference, PlainRow, Side
from harness.report.tables import ASCII, NOTHING, TIME, digits, one_line, quantity, speedup
from harness.wording import counted

WIDTH = 100  # characters; a wider terminal gets no wider tables
MISSING = "missing"  # the side has no such row
MODE_NAMES = {"forward_train": "forward, train", "forward_backward": "both"}
_MAKERS = re.compile(r"\([^)]*\)|\b(NVIDIA|AMD|Intel|GeForce|RTX|Tesla|Instinct|Xeon|CPU)\b", re.I)


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table: leading columns, then `heads` once a side. A line is (leads, label -> cells)."""

    title: str
    leads: tuple[str, ...]
    heads: tuple[str, ...]
    lines: Sequence[tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]]]


# --- what is shown --------------------------------------------------------------------------------


def grids(comparison: Comparison) -> list[Grid]:
    """One grid a problem, size and dtype, and last the geometric means."""
    groups: dict[str, list[Entry]] = {}
    for entry in comparison.entries:
        key = entry.key
        title = f"{key.problem}, {f'size {key.size}, ' if key.size else ''}{key.dtype}"
        groups.setdefault(title, []).append(entry)
    heads = ("speedup", "time", "limit")
    found = []
    for title, entries in groups.items():
        names = Counter(entry.key.solution for entry in entries)
        lines: list[tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]]] = []
        for entry in entries:
            lines += _lines(entry, comparison.sides, alone=names[entry.key.solution] == 1)
        found.append(Grid(title=title, leads=("solution",), heads=heads, lines=lines))
    return [*found, *_mean_grid(comparison)]


def _lines(
    entry: Entry, sides: Sequence[Side], *, alone: bool
) -> Iterator[tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]]]:
    """The verdicts of a solution, and below it a line for each mode."""
    key = entry.key
    texts = f" (text {key.solution_digest[:8]}, problem {key.problem_digest[:8]})"
    verdicts = {side.label: (_verdict(entry.rows.get(side.label)), "", "") for side in sides}
    yield (one_line(key.solution + ("" if alone else texts)),), verdicts
    for mode in entry.modes:
        cells = {s.label: _cells(entry.rows.get(s.label), mode) for s in sides}
        yield (f"  {MODE_NAMES.get(mode, mode)}",), cells


def _verdict(row: PlainRow | None) -> str:
    return MISSING if row is None else one_line(str(row["status"]))


def _cells(row: PlainRow | None, mode: str) -> tuple[str, str, str]:
    """Speedup, time and fraction of the limit of one mode on one side."""
    if row is None:
        return "", "", ""
    ratio, low, high, time, limit = (
        row[f"{mode}_{name}"]
        for name in ("speedup", "low", "high", "solution_ms", "limit_fraction")
    )
    share = f"{limit:.0%}" if isinstance(limit, float) else NOTHING
    return speedup(ratio, low, high), quantity(time, TIME), share


def _mean_grid(comparison: Comparison) -> list[Grid]:
    if len(comparison.sides) < 2:
        return []
    title = "geometric mean of the speedups, over the rows that all sides have credited"
    if not comparison.means:
        title += ": there are none"
    lines = [
        (
            (MODE_NAMES.get(m.mode, m.mode), one_line(m.size), one_line(m.dtype), str(m.count)),
            {label: (digits(value),) for label, value in m.values.items()},
        )
        for m in comparison.means
    ]
    return [Grid(title=title, leads=("mode", "size", "dtype", "rows"), heads=("",), lines=lines)]


def legend(comparison: Comparison) -> list[str]:
    """A line for each side, then what differs, then what was left out."""
    lines = [
        f"{s.label}: {s.device_name} ({s.file}, {counted(len(s.rows), 'row')}, newest {s.newest})"
        for s in comparison.sides
    ]
    lines += [_difference(difference) for difference in comparison.differences]
    return [one_line(line) for line in [*lines, *comparison.notes]]


def _difference(difference: Difference) -> str:
    """`torch differs: 2.13 (A, C), 2.14 (B)`."""
    holders: dict[str, list[str]] = {}
    for label, values in difference.values.items():
        holders.setdefault(" and ".join(values), []).append(label)
    texts = ", ".join(f"{value} ({', '.join(labels)})" for value, labels in holders.items())
    where = f"{difference.where}: " if difference.where else ""
    return f"{where}{difference.name} differs: {texts}{'; kept apart' if difference.apart else ''}"


def changed(pair: RunPair) -> list[str]:
    """What became slower or faster from one run to the next, worst first."""
    order = list(Kind)
    shown = sorted(
        (c for c in pair.changes if c.kind is not Kind.SAME), key=lambda c: order.index(c.kind)
    )
    same = len(pair.changes) - len(shown)
    head = f"{pair.before.label} → {pair.after.label}, both {pair.after.device_name}"
    lines = [f"{head}: {len(shown)} changed, {same} within the interval"]
    return [one_line(line) for line in [*lines, *map(change_text, shown)]]


def change_text(change: Change) -> str:
    """One change in one line."""
    row, old, new = change.row, change.before, change.after
    name = f"{row['problem']} / {row['solution']}, {row['size']}, {row['dtype']}"
    mode = f", {MODE_NAMES.get(change.mode, change.mode)}" if change.mode else ""
    edited = " (its text has changed)" if change.edited else ""
    if old is None or new is None:
        return f"{change.kind.value}: {name}: {row['status']}"
    if not change.mode:
        return f"{change.kind.value}: {name}: {old['status']} → {new['status']}{edited}"
    texts = [_cells(side, change.mode)[:2] for side in (old, new)]
    moved = " → ".join(f"{ratio} ({time})" for ratio, time in texts)
    return f"{change.kind.value}: {name}{mode}: {moved}{edited}"


# --- how ----------------------------------------------------------------------------------------


def screen(comparison: Comparison) -> RenderableType:
    """Tables for a terminal."""
    return _Screen(comparison)


class _Screen:
    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        def text(line: str, style: str = "") -> Text:
            return Text(line.translate(ASCII) if options.ascii_only else line, style=style)

        unbounded = options.update(max_width=10_000)

        def fits(made: Table) -> bool:
            widest = Measurement.get(console, unbounded, made).maximum
            return widest <= min(WIDTH, options.max_width)

        yield from (text(line) for line in legend(self._comparison))
        for grid in grids(self._comparison):
            yield text("")
            yield text(one_line(grid.title), "bold")
            left = list(self._comparison.sides) if grid.lines else []
            while left:
                count = 1
                while count < len(left) and fits(_table(grid, left[: count + 1], text)):
                    count += 1
                yield _table(grid, left[:count], text)
                left = left[count:]
        for pair in self._comparison.pairs:
            yield text("")
            first, *others = changed(pair)
            yield text(first, "bold")
            yield from (text(line, _style(line)) for line in others)


def _table(grid: Grid, sides: Sequence[Side], text: Callable[..., Text]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for number, lead in enumerate(grid.leads):
        width = 24 if number == 0 else None
        table.add_column(text(f"\n{lead}"), overflow="fold", max_width=width)
    for side in sides:
        for number, head in enumerate(grid.heads):
            above = f"{side.label}: {short_name(side.device_name)}" if number == 0 else ""
            table.add_column(text(f"{above}\n{head}"), justify="right", no_wrap=True)
    for leads, cells in grid.lines:
        texts = [cell for side in sides for cell in cells[side.label]]
        table.add_row(*map(text, leads), *(text(c, _style(c)) for c in texts))
    return table


def _style(cell: str) -> str:
    first = cell.split(":")[0]
    if first in ("pass", "faster", "mended"):
        return "green"
    bad = first in ("slower", "broke", "crash", "timeout", "rejected") or "error" in first
    return "red" if bad or first.startswith("wrong") else ""


def short_name(device_name: str) -> str:
    """`H100` for "NVIDIA H100 80GB HBM3": the first word with a digit, makers' names aside."""
    words = _MAKERS.sub(" ", one_line(device_name)).split()
    told = [word for word in words if re.search(r"\d", word)] or words or [one_line(device_name)]
    return told[0].strip(",;\"'()")[:10]


def markdown(comparison: Comparison) -> str:
    """The same for a README or a pull request."""
    blocks = ["\n".join(f"- {escaped(line)}" for line in legend(comparison))]
    for grid in grids(comparison):
        blocks.append(f"**{escaped(one_line(grid.title))}**")
        sides = comparison.sides
        heads = [f"{s.label} {head}".strip() for s in sides for head in grid.heads]
        names = [*grid.leads, *heads]
        lines = [names, ["---", *["---:" for _ in names[1:]]]]
        for leads, cells in grid.lines:
            lines.append([*leads, *(cell for s in sides for cell in cells[s.label])])
        if grid.lines:
            blocks.append("\n".join(markdown_line(line) for line in lines))
    for pair in comparison.pairs:
        first, *others = changed(pair)
        blocks.append(
            "\n".join([f"**{escaped(first)}**", "", *(f"- {escaped(o)}" for o in others)])
        )
    return "\n\n".join(blocks)


def markdown_line(cells: Sequence[str]) -> str:
    """A line of a table, its cells escaped."""
    return "| " + " | ".join(escaped(one_line(cell)) for cell in cells) + " |"


def escaped(line: str) -> str:
    """`line` with nothing in it that Markdown, or HTML in it, would take for its own."""
    return re.sub(r"([\\`*\[\]<>|~&!])", r"\\\1", line)
