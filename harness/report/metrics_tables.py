"""Metrics as a table on a screen, in Markdown, and as plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.report.metrics import DOUBTS, Metrics, Score, Section
from harness.report.tables import digits

Cells = list[list[str]]


def screen(found: Metrics) -> RenderableType:
    """One table a device, dtype and level, a column for each mode and baseline."""
    parts: list[RenderableType] = []
    for place, sections in _places(found.sections):
        for level in dict.fromkeys(section.level for section in sections):
            header, *lines = cells([s for s in sections if s.level == level])
            table = Table(title=f"{place}, {level}", title_justify="left", box=None)
            table.add_column("")
            for line in lines:
                table.add_column(f"{line[1]}\n{line[2]}", justify="right", no_wrap=True)
            for number in range(3, len(header)):
                table.add_row(header[number], *(line[number] for line in lines))
            parts += [table, Text("")]
    return Group(*parts, *(Text(line) for line in notes(found)))


def markdown(found: Metrics) -> str:
    """The same for a README or a paper's repository."""
    parts = []
    for place, sections in _places(found.sections):
        header, *lines = cells(sections)
        rule = ["---"] * 3 + ["---:"] * (len(header) - 3)
        table = "\n".join("| " + " | ".join(row) + " |" for row in [header, rule, *lines])
        parts.append(f"**{place}**\n\n{table}")
    return "\n\n".join([*parts, *notes(found)])


def plain(found: Metrics) -> dict[str, Any]:
    """What `--json` prints."""
    sections = [dataclasses.asdict(section) for section in found.sections]
    return {"sections": sections, "left_out": dict(found.left_out)}


def notes(found: Metrics) -> list[str]:
    """How to read it, and what is not in it."""
    lines = [
        "a / b: as usually counted / without flagged and not_exercised rows, which then count as "
        "wrong. In doubt: flagged + not_exercised, of the right ones.",
        f"Flagged: any of {', '.join(sorted(DOUBTS))}.",
    ]
    if found.left_out:
        told = ", ".join(f"{count} {status}" for status, count in sorted(found.left_out.items()))
        lines.append(f"Rows left out: {told}.")
    if any(section.untimed for section in found.sections):
        lines.append("Right ones without a time count for p = 0 alone.")
    if any(section.right is None for section in found.sections):
        lines.append("Training is not known (-): of the right ones only a forward was timed.")
    return lines


def cells(sections: Sequence[Section]) -> Cells:
    """Header and lines."""
    thresholds, ks = list(sections[0].fast), list(sections[0].passes)
    header = ["level", "mode", "over", "problems", "right", "in doubt"]
    header += [f"fast_{p:g}" for p in thresholds] + ["geomean"] + [f"pass@{k}" for k in ks]
    lines = []
    for s in sections:
        line = [s.level, s.mode, s.baseline, f"{s.problems}"]
        known = s.right is not None
        line += [f"{s.right}", f"{s.flagged} + {s.not_exercised}"] if known else ["-", "-"]
        line += [_both(s.fast[p], "{:.2f}".format) for p in thresholds]
        line.append(_both(s.mean, digits))
        line += [_both(s.passes[k], "{:.2f}".format) for k in ks]
        lines.append(line)
    return [header, *lines]


def _places(sections: Sequence[Section]) -> list[tuple[str, list[Section]]]:
    found: dict[str, list[Section]] = {}
    for section in sections:
        found.setdefault(f"{section.device_name}, {section.dtype}", []).append(section)
    return list(found.items())


def _both(score: Score, form: Callable[[float], str]) -> str:
    first, second = (
        "-" if value is None else form(value) for value in (score.counted, score.clean)
    )
    return first if first == second else f"{first} / {second}"
