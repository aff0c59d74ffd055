"""Results files -> the report: one HTML file that needs nothing else, or Markdown.

Everything that comes from a row or a log is text: Jinja escapes it, and the page's content
security policy lets no script run but its own. What is shown of a row: boards.py. Layout, style
and behaviour are in templates/.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

import jinja2
from markupsafe import Markup

from harness.records import ENVIRONMENT_COLUMNS
from harness.report import boards, compare_tables, comparison, plots, tables
from harness.report.boards import Line
from harness.report.compare_tables import MODE_NAMES
from harness.report.comparison import Comparison, Only
from harness.report.sides import PlainRow, Side
from harness.report.tables import NOTHING, one_line
from harness.wording import counted

TEMPLATES = Path(__file__).resolve().parent / "templates"
ENVIRONMENT = (*ENVIRONMENT_COLUMNS, "isolation", "settings_digest", "settings", "harness_version")


# --- HTML -----------------------------------------------------------------------------------------


def html(paths: Sequence[Path], only: Only | None = None) -> str:
    """The page. Raises `RequestError` where a file is no results file, or all are empty."""
    found = comparison.read(paths, only)
    folders = list(dict.fromkeys(path.resolve().parent for path in paths))
    axis = plots.speedup_axis(row for side in found.sides for row in side.rows)
    lines = boards.lines_of(found.sides, axis, folders)
    named = [
        (number, f"{_name(row)} on {side.device_name}", row)
        for number, side in enumerate(found.sides)
        for row in side.rows
    ]
    script = (TEMPLATES / "script.js").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html").render(
        style=Markup((TEMPLATES / "style.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        axis=axis,
        boards=boards.boards_of(lines),
        lines=lines,
        sides=found.sides,
        roofline=plots.roofline(named),
        geometry=plots,
        across=_across(found),
        environment=_environment(found.sides),
        statuses=sorted({line.cells["verdict"] for line in lines}),
        problems=sorted({str(line.row["problem"]) for line in lines}),
        mode_names=MODE_NAMES,
        short_name=compare_tables.short_name,
        counted=counted,
    )


def _name(row: PlainRow) -> str:
    return one_line(f"{row['problem']} / {row['solution']}")


def _across(found: Comparison) -> dict[str, list[str]]:
    """What sides have in common and how they differ, in lines."""
    count = len(found.sides)
    return {
        "differences": compare_tables.legend(found)[count:],
        "missing": _missing(found),
        "changes": [line for pair in found.pairs for line in compare_tables.changed(pair)],
        "means": [
            f"{MODE_NAMES.get(mean.mode, mean.mode)}, {mean.size}, {mean.dtype}, "
            f"{counted(mean.count, 'row')}: "
            + ", ".join(f"{label} {tables.digits(value)}" for label, value in mean.values.items())
            for mean in (found.means if count > 1 else ())
        ],
    }


def _missing(found: Comparison) -> list[str]:
    """What not all sides have: a line for each set of sides that lack something."""
    lacking: dict[str, list[str]] = {}
    for entry in found.entries:
        without = ", ".join(s.label for s in found.sides if s.label not in entry.rows)
        if without:
            name = _name(next(iter(entry.rows.values())))
            lacking.setdefault(without, []).append(f"{name} ({entry.key.size}, {entry.key.dtype})")
    return [f"not on {without}: {', '.join(names)}" for without, names in lacking.items()]


def _environment(sides: Sequence[Side]) -> list[tuple[str, list[str]]]:
    """Column -> its values on each side."""
    table = []
    for name in ENVIRONMENT:
        values = [
            ", ".join(sorted({one_line(str(r[name])) for r in s.rows if r[name] not in (None, "")}))
            for s in sides
        ]
        if any(values):
            table.append((name, [value or NOTHING for value in values]))
    return table


# --- Markdown -------------------------------------------------------------------------------------


def markdown(paths: Sequence[Path], only: Only | None = None) -> str:
    """Leaderboards for a README or a pull request. Raises as `html` does."""
    found = comparison.read(paths, only)
    lines = boards.lines_of(found.sides, plots.speedup_axis(()), ())
    blocks = []
    heads = [header.replace("-\n", "").replace("\n", " ") for header in tables.COLUMNS.values()]
    for board in boards.boards_of(lines):
        table = [["device", *heads], ["---", "---", "---", *["---:" for _ in heads[2:]]]]
        for line in board.lines:
            device = found.sides[line.side].device_name
            table.append([device, *(line.cells[key] for key in tables.COLUMNS)])
        notes = [
            f"- {compare_tables.escaped(one_line(text))}"
            for line in board.lines
            for text in _markdown_notes(line)
        ]
        title = compare_tables.escaped(one_line(board.title))
        text = "\n".join(map(compare_tables.markdown_line, table))
        blocks += [f"**{title}**", text, *(["\n".join(notes)] if notes else [])]
    blocks.append("\n".join(f"- {compare_tables.escaped(t)}" for t in compare_tables.legend(found)))
    return "\n\n".join(blocks)


def _markdown_notes(line: Line) -> list[str]:
    notes = []
    if line.row["message"] or line.tone == "bad":
        why = line.row["message"] or line.means
        notes.append(f"{line.row['solution']}: {line.cells['verdict']}: {why}")
    if line.flags:
        notes.append(f"{line.row['solution']}: flags: {', '.join(flag for flag, _ in line.flags)}")
    return notes
