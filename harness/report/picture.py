"""Results files -> a picture for a README: the speedups as bars, in one SVG.

Of each credited row forward, and forward and backward together, with their 95 % intervals and what
`torch.compile` reaches. Drawn by templates/picture.svg.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2

from harness.errors import RequestError
from harness.report import comparison, plots, tables
from harness.report.compare_tables import MODE_NAMES
from harness.report.comparison import Only
from harness.report.sides import PlainRow
from harness.report.tables import is_number, one_line

TEMPLATES = Path(__file__).resolve().parent / "templates"
MODES = ("forward", "forward_backward")
WIDTH, LEFT, RIGHT = 760.0, 190.0, 96.0  # of the picture; its margins hold names and figures
LINE, HEAD, TOP, BOTTOM = 18.0, 30.0, 8.0, 44.0  # heights
NAME_LENGTH = 18  # characters
TICKS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)


@dataclass(frozen=True, kw_only=True)
class Line:
    """A heading, or one bar: `compiled` is where `torch.compile` lies on the same axis."""

    y: float
    name: str
    mode: str = ""
    bar: plots.Bar | None = None
    compiled: float | None = None
    text: str = ""


def svg(paths: Sequence[Path], only: Only | None = None) -> str:
    """The picture. Raises `RequestError` for what is no results file, or if nothing is credited."""
    groups: dict[str, list[PlainRow]] = {}
    for side in comparison.read(paths, only).sides:
        for row in side.rows:
            if any(is_number(row[f"{mode}_speedup"]) for mode in MODES):
                title = f"{row['problem']}, size {row['size']}, {row['dtype']}, {side.device_name}"
                groups.setdefault(one_line(title), []).append(row)
    if not groups:
        raise RequestError("nothing to draw: no row has a credited speedup")
    found = plots.speedup_axis(row for rows in groups.values() for row in rows)
    axis = plots.Axis(low=found.low, high=found.high, start=LEFT, end=WIDTH - RIGHT)
    lines, y = [], TOP
    for title, rows in groups.items():
        lines.append(Line(y=y + HEAD - 8, name=title))
        y += HEAD
        for row in rows:
            for line in _bars(row, axis, y):
                lines.append(line)
                y += LINE
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined
    )
    return environment.get_template("picture.svg").render(
        lines=lines,
        ticks=[plots.Tick(at=axis.at(t), text=f"{t:g}") for t in TICKS if axis.low < t < axis.high],
        width=WIDTH,
        height=y + BOTTOM,
        bottom=y + 4,
        one=axis.at(1.0),
    )


def _bars(row: PlainRow, axis: plots.Axis, y: float) -> list[Line]:
    """The bars of a row, one below the other from `y` on; its name beside the first."""
    lines: list[Line] = []
    for mode in MODES:
        if (bar := plots.bar(row, mode, axis)) is None:
            continue
        values = (row[f"{mode}_{name}"] for name in ("speedup", "low", "high"))
        compiled = row[f"{mode}_compiled_speedup"]
        name = one_line(str(row["solution"]))
        name = name if len(name) <= NAME_LENGTH else f"{name[: NAME_LENGTH - 1]}…"
        lines.append(
            Line(
                y=y + len(lines) * LINE,
                name="" if lines else name,
                mode=MODE_NAMES.get(mode, mode),
                bar=bar,
                compiled=axis.at(compiled) if is_number(compiled) and compiled > 0 else None,
                text=tables.speedup(*values),
            )
        )
    return lines
