"""Rows -> what the report shows of each, and the leaderboards that they stand in.

Raw samples and logs are read from the folders raw/ and logs/ beside each results file only,
whatever path a row names. How it is shown: page.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from harness import meanings, samples
from harness.errors import RequestError
from harness.records import MODES, Status, Value
from harness.report import plots, tables
from harness.report.compare_tables import MODE_NAMES
from harness.report.sides import PlainRow, Side
from harness.report.tables import (
    MEMORY,
    NOTHING,
    TIME,
    is_number,
    one_line,
    pair,
    quantity,
    speedup,
)
from harness.wording import counted

#: Of a log, characters from its start and from its end.
LOG_HEAD, LOG_TAIL = 6000, 3000
#: Modes with a column of their own in a leaderboard.
BOARD_MODES = ("forward", "backward", "forward_backward")
TEXTS = ("solution", "verdict")  # cells that are no figures
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
        column = name if name in self.row else f"{tables.headline(self.row)}_{name}"
        value = plots.number_of(self.row[column])
        return "" if value is None else value


@dataclass(frozen=True, kw_only=True)
class Board:
    """The leaderboard of one problem at one size and dtype, best first."""

    title: str
    lines: Sequence[Line]


def lines_of(sides: Sequence[Side], axis: plots.Axis, folders: Sequence[Path]) -> list[Line]:
    """All rows, in order; raw samples and logs are looked for beside `folders`."""
    rows = [(number, row) for number, side in enumerate(sides) for row in side.rows]
    return [_line(number, side, row, axis, folders) for number, (side, row) in enumerate(rows)]


def _line(number: int, side: int, row: PlainRow, axis: plots.Axis, folders: Sequence[Path]) -> Line:
    means, advice = meanings.meaning(row)
    flags = str(row["flags"] or "").split()
    return Line(
        number=number,
        side=side,
        row={name: one_line(v) if isinstance(v, str) else v for name, v in row.items()},
        cells=tables.cells(row),
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
        ("time in its own kernels", f"{share:.0%}" if is_number(share) else NOTHING),
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
    cut = f"[... {counted(left_out, 'character')} left out ...]"
    return f"{text[:LOG_HEAD]}\n{cut}\n{text[-LOG_TAIL:]}"


def log_file(row: PlainRow, folders: Sequence[Path]) -> Path | None:
    """The log of a row in one of `folders`: logs/RUN/NAME of the path that the row names, which
    is another machine's or a stranger's."""
    path = PurePosixPath(str(row["log"] or ""))
    run, name = path.parent.name, path.name
    if not run or ".." in (run, name):
        return None
    files = (folder / "logs" / run / name for folder in folders)
    return next((file for file in files if file.is_file() and not file.is_symlink()), None)


def boards_of(lines: Sequence[Line]) -> list[Board]:
    """A leaderboard for each problem (and text of it), size and dtype."""
    groups: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        key = tuple(str(line.row[n] or "") for n in ("problem", "size", "dtype", "problem_digest"))
        groups.setdefault(key, []).append(line)
    texts = {key[:3]: sum(other[:3] == key[:3] for other in groups) for key in groups}
    found = []
    for key, members in sorted(groups.items()):
        problem, size, dtype, digest = key
        title = f"{problem}, {f'size {size}, ' if size else ''}{dtype}"
        title += f" (problem text {digest[:8]})" if texts[key[:3]] > 1 else ""
        found.append(Board(title=title, lines=sorted(members, key=_rank)))
    return found


def _rank(line: Line) -> tuple[float, str]:
    """Fastest first; what is not credited last."""
    values = [line.ratios[mode].value for mode in ("forward_backward", "forward", "backward")]
    best = next((value for value in values if value is not None), None)
    return (-best if best is not None else 1.0, line.cells["solution"])
