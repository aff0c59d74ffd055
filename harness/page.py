"""Results files -> the report: one HTML file that needs nothing else, or Markdown.

Everything that comes from a row or a log is text: Jinja escapes it, and the page's content
security policy lets no script run but its own. Raw samples and logs are read from the folders
raw/ and logs/ beside each results file only, whatever path a row names. Layout, style and
behaviour are in templates/report/.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import jinja2
from markupsafe import Markup

from harness import comparison, meanings, plots, report, report_compare, samples
from harness.comparison import Comparison
from harness.errors import RequestError
from harness.records import ENVIRONMENT_COLUMNS, MODES, Status, Value
from harness.report import MEMORY, NOTHING, TIME, is_number, one_line, pair, quantity, speedup
from harness.report_compare import MODE_NAMES
from harness.sides import PlainRow, Side

TEMPLATES = Path(__file__).resolve().parent / "templates" / "report"
#: Of a log, characters from its start and from its end.
LOG_HEAD, LOG_TAIL = 6000, 3000
#: Modes with a column of their own in a leaderboard.
BOARD_MODES = ("forward", "backward", "forward_backward")
TEXTS = ("solution", "verdict")  # cells that are no figures
ENVIRONMENT = (*ENVIRONMENT_COLUMNS, "isolation", "settings_digest", "harness_version")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """A speedup in a leaderboard: its text, the figure to sort by, its bar."""

    text: str
    value: float | None
    bar: plots.Bar | None


@dataclass(frozen=True, kw_only=True)
class Line:
    """A row as the page shows it. `number` is its place on the page; `side` its device's."""

    number: int
    side: int
    row: PlainRow
    cells: Mapping[str, str]
    ratios: Mapping[str, Ratio]
    tone: str
    means: str
    advice: str
    flags: Sequence[tuple[str, str]]
    modes: Sequence[Mapping[str, str]]
    facts: Sequence[tuple[str, str]]
    spreads: Sequence[plots.Spread]
    log: str

    @property
    def blank(self) -> bool:
        """Whether it has no figure at all: its message then stands in their place."""
        return all(cell == NOTHING for name, cell in self.cells.items() if name not in TEXTS)

    def sort(self, name: str) -> float | str:
        """The figure to sort by: a column, or that of the mode which times are shown of."""
        column = name if name in self.row else f"{report.headline(self.row)}_{name}"
        value = plots.number_of(self.row[column])
        return "" if value is None else value


@dataclass(frozen=True, kw_only=True)
class Board:
    """The leaderboard of one problem at one size and dtype, best first."""

    title: str
    lines: Sequence[Line]


# --- HTML -----------------------------------------------------------------------------------------


def html(paths: Sequence[Path]) -> str:
    """The page. Raises `RequestError` where a file is no results file, or all are empty."""
    found = comparison.read(paths)
    folders = list(dict.fromkeys(path.resolve().parent for path in paths))
    rows = [(number, row) for number, side in enumerate(found.sides) for row in side.rows]
    axis = plots.speedup_axis(row for _, row in rows)
    lines = [_line(number, side, row, axis, folders) for number, (side, row) in enumerate(rows)]
    named = [(side, f"{_name(row)} on {found.sides[side].device_name}", row) for side, row in rows]
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
        boards=_boards(lines),
        lines=lines,
        sides=found.sides,
        roofline=plots.roofline(named),
        geometry=plots,
        across=_across(found),
        environment=_environment(found.sides),
        statuses=sorted({line.cells["verdict"] for line in lines}),
        problems=sorted({str(line.row["problem"]) for line in lines}),
        mode_names=MODE_NAMES,
        short_name=report_compare.short_name,
    )


def _name(row: PlainRow) -> str:
    return one_line(f"{row['problem']} / {row['solution']}")


def _line(number: int, side: int, row: PlainRow, axis: plots.Axis, folders: Sequence[Path]) -> Line:
    means, advice = meanings.meaning(row)
    flags = str(row["flags"] or "").split()
    return Line(
        number=number,
        side=side,
        row={name: one_line(v) if isinstance(v, str) else v for name, v in row.items()},
        cells=report.cells(row),
        ratios={mode: _ratio(row, mode, axis) for mode in BOARD_MODES},
        tone=_tone(row),
        means=means,
        advice=advice,
        flags=[(one_line(flag), meanings.flag_meaning(flag)) for flag in flags],
        modes=[_mode(row, mode) for mode in MODES if is_number(row[f"{mode}_solution_ms"])],
        facts=_facts(row),
        spreads=_spreads(row, folders),
        log=_log(row, folders),
    )


def _tone(row: PlainRow) -> str:
    """good, bad, or neither."""
    if row["status"] == Status.PASS.value:
        return "good"
    fine = row["status"] in {one.value for one in Status if one.fine}
    return "plain" if fine or meanings.is_quick_look(row) else "bad"


def _ratio(row: PlainRow, mode: str, axis: plots.Axis) -> Ratio:
    ratio, low, high = (row[f"{mode}_{name}"] for name in ("speedup", "low", "high"))
    text = speedup(ratio, low, high)
    return Ratio(text=text, value=plots.number_of(ratio), bar=plots.bar(row, mode, axis))


def _mode(row: PlainRow, mode: str) -> dict[str, str]:
    """One mode's line in the details of a row."""

    def of(name: str) -> Value:
        return row[f"{mode}_{name}"]

    def share(name: str) -> str:
        value = of(name)
        return f"{value:.1%}" if is_number(value) else NOTHING

    noise, time, moved = of("noise"), of("solution_ms"), of("least_bytes")
    known = is_number(time) and is_number(moved)
    return {
        "mode": MODE_NAMES.get(mode, mode),
        "reference": quantity(of("reference_ms"), TIME),
        "solution": quantity(time, TIME),
        "speedup": speedup(of("speedup"), of("low"), of("high")),
        "vs compiled": speedup(of("compile_speedup"), of("compile_low"), of("compile_high")),
        "with launches": speedup(of("wall_speedup")).removesuffix(" ±?"),
        "of limit": share("limit_fraction"),
        "reference of limit": share("reference_limit_fraction"),
        "bytes/s, least": f"{plots.rate(float(moved), float(time))}B/s" if known else NOTHING,  # type: ignore[arg-type]
        "A/A noise": f"{noise:.2%}" if is_number(noise) else NOTHING,
        "epochs": str(of("epochs") or NOTHING),
        "dropped": str(of("dropped") if of("dropped") is not None else NOTHING),
    }


def _facts(row: PlainRow) -> list[tuple[str, str]]:
    """Memory, accuracy, provenance, cost."""
    ratio, share, build, total = (
        row[name] for name in ("error_ratio", "own_share", "build_s", "total_s")
    )
    peaks = {
        kind: pair(row[f"{kind}_peak_mib"], row[f"reference_{kind}_peak_mib"], MEMORY, "/")
        for kind in ("inference", "training")
    }
    return [
        ("peak memory, inference (solution / reference)", peaks["inference"]),
        ("peak memory, training (solution / reference)", peaks["training"]),
        ("error over eager's, against float64", f"{ratio:.3g}" if is_number(ratio) else NOTHING),
        ("GPU time in its own kernels", f"{share:.0%}" if is_number(share) else NOTHING),
        ("build", f"{build:.1f} s" if is_number(build) else NOTHING),
        ("evaluation", f"{total:.1f} s" if is_number(total) else NOTHING),
        ("measured", one_line(str(row["time"]))),
        ("solution text", one_line(str(row["solution_digest"]))),
        ("problem text", one_line(str(row["problem_digest"]))),
    ]


def _spreads(row: PlainRow, folders: Sequence[Path]) -> list[plots.Spread]:
    """The raw samples of a row, where they are kept beside the results."""
    name = samples.name_of(*(str(row[n]) for n in ("run_id", "problem", "solution")))
    for folder in folders:
        try:
            timings = samples.load(samples.file_for(name, folder / "raw"))
            return [plots.spread(timing) for timing in timings.values()]
        except (RequestError, ValueError):  # not there, or no samples in it
            continue
    return []


def _log(row: PlainRow, folders: Sequence[Path]) -> str:
    """The log's start and end; empty where there is none. See `log_file`."""
    found = log_file(row, folders)
    if found is None:
        return ""
    text = _CONTROL.sub("", found.read_text(encoding="utf-8", errors="replace")).strip()
    left_out = len(text) - LOG_HEAD - LOG_TAIL
    if left_out <= 0:
        return text
    return f"{text[:LOG_HEAD]}\n[... {left_out} characters left out ...]\n{text[-LOG_TAIL:]}"


def log_file(row: PlainRow, folders: Sequence[Path]) -> Path | None:
    """The log of a row in one of `folders`: logs/RUN/NAME of the path that the row names, which
    is another machine's or a stranger's."""
    path = PurePosixPath(str(row["log"] or ""))
    run, name = path.parent.name, path.name
    if not run or ".." in (run, name):
        return None
    files = (folder / "logs" / run / name for folder in folders)
    return next((file for file in files if file.is_file() and not file.is_symlink()), None)


def _boards(lines: Sequence[Line]) -> list[Board]:
    groups: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        key = tuple(str(line.row[n] or "") for n in ("problem", "size", "dtype", "problem_digest"))
        groups.setdefault(key, []).append(line)
    texts = {key[:3]: sum(other[:3] == key[:3] for other in groups) for key in groups}
    boards = []
    for key, members in sorted(groups.items()):
        problem, size, dtype, digest = key
        title = f"{problem}, {f'size {size}, ' if size else ''}{dtype}"
        title += f" (problem text {digest[:8]})" if texts[key[:3]] > 1 else ""
        boards.append(Board(title=title, lines=sorted(members, key=_rank)))
    return boards


def _rank(line: Line) -> tuple[float, str]:
    """Fastest first; what is not credited last."""
    values = [line.ratios[mode].value for mode in ("forward_backward", "forward", "backward")]
    best = next((value for value in values if value is not None), None)
    return (-best if best is not None else 1.0, line.cells["solution"])


def _across(found: Comparison) -> dict[str, list[str]]:
    """What sides have in common and how they differ, in lines."""
    count = len(found.sides)
    return {
        "differences": report_compare.legend(found)[count:],
        "missing": _missing(found),
        "changes": [line for pair in found.pairs for line in report_compare.changed(pair)],
        "means": [
            f"{MODE_NAMES.get(mean.mode, mean.mode)}, {mean.size}, {mean.dtype}, "
            f"{report.counted(mean.count, 'row')}: "
            + ", ".join(f"{label} {value:.3g}" for label, value in mean.values.items())
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


def markdown(paths: Sequence[Path]) -> str:
    """Leaderboards for a README or a pull request. Raises as `html` does."""
    found = comparison.read(paths)
    axis = plots.speedup_axis(())
    rows = [(number, row) for number, side in enumerate(found.sides) for row in side.rows]
    lines = [_line(number, side, row, axis, ()) for number, (side, row) in enumerate(rows)]
    blocks = []
    heads = [header.replace("-\n", "").replace("\n", " ") for header in report.COLUMNS.values()]
    for board in _boards(lines):
        table = [["device", *heads], ["---", "---", "---", *["---:" for _ in heads[2:]]]]
        for line in board.lines:
            device = found.sides[line.side].device_name
            table.append([device, *(line.cells[key] for key in report.COLUMNS)])
        notes = [
            f"- {report_compare.escaped(one_line(text))}"
            for line in board.lines
            for text in _markdown_notes(line)
        ]
        title = report_compare.escaped(one_line(board.title))
        text = "\n".join(map(report_compare.markdown_line, table))
        blocks += [f"**{title}**", text, *(["\n".join(notes)] if notes else [])]
    blocks.append("\n".join(f"- {report_compare.escaped(t)}" for t in report_compare.legend(found)))
    return "\n\n".join(blocks)


def _markdown_notes(line: Line) -> list[str]:
    notes = []
    if line.row["message"] or line.tone == "bad":
        why = line.row["message"] or line.means
        notes.append(f"{line.row['solution']}: {line.cells['verdict']}: {why}")
    if line.flags:
        notes.append(f"{line.row['solution']}: flags: {', '.join(flag for flag, _ in line.flags)}")
    return notes
