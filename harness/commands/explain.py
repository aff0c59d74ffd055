"""`explain`: the whole story of a row, as data, and as text for a person.

Covers: what the verdict means, the compiler's first lines, where results differ, each mode
against its limit, what bounds it, what to try next. The row is what is explained: nothing is run
but, where asked for, a profile.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from harness import catalog, meanings
from harness.errors import RequestError
from harness.judge.profiling import Profile
from harness.records import MODES, Status
from harness.report import boards, comparison, plots, profile_tables
from harness.report.compare_tables import MODE_NAMES
from harness.report.sides import PlainRow
from harness.report.tables import MEMORY, TIME, is_number, one_line, pair, quantity, speedup

NAMED = 10  # results that are there, of a problem without the one that was asked for
LOG_LINES = 12  # quoted of a log
NEAR_LIMIT, FAR_FROM_LIMIT = 0.9, 0.5  # fractions of the limit
_DIAGNOSTIC = re.compile(r"\berror\b|undefined (reference|symbol)|fatal|cannot find", re.I)
#: Lines around a diagnostic: the builder's command, the harness's own name for the failure, and
#: what torch's profiler says of a machine without a GPU.
_AROUND = re.compile(r"Error building extension|harness\.|ERROR:\d{4}-\d\d-\d\d ")
_RAISED = re.compile(r"^\w*(\.\w+)*(Error|Exception|Fault)\b")
_FIGURES = (
    *("reference_ms", "solution_ms", "speedup", "low", "high", "compile_speedup", "wall_speedup"),
    *("limit_fraction", "reference_limit_fraction", "least_bytes", "least_flops", "bound"),
)


def find(
    paths: Sequence[Path],
    problem: str,
    solution: str,
    *,
    size: str | None = None,
    dtype: str | None = None,
) -> PlainRow:
    """The newest row of a solution; both are named as an evaluation names them, or by their file.
    Raises `RequestError` where there is none."""
    rows = _of_problem(
        problem, [r for s in (comparison.read(paths).sides if paths else ()) for r in s.rows]
    )
    stem = Path(solution).stem
    names = {solution, stem, f"sample_{catalog.sample_of(stem)}"}
    found = [
        row
        for row in rows
        if row["solution"] in names
        and size in (None, row["size"])
        and dtype in (None, row["dtype"])
    ]
    if not found:
        there = sorted({f"{r['solution']} ({r['size']}, {r['dtype']})" for r in rows})
        wanted = " ".join([f"{problem} / {solution}", *filter(None, (size, dtype))])
        then = ["--problem", problem, "--solution", solution]
        raise RequestError(
            f"there is no result of {wanted} in {', '.join(map(str, paths)) or 'results/'}"
            + (f", which has {', '.join(map(one_line, there[:NAMED]))}" if there else "")
            + f"; evaluate it first: python run_eval.py {shlex.join(then)}"
        )
    return max(found, key=lambda row: str(row["time"] or ""))


def _of_problem(asked: str, rows: Sequence[PlainRow]) -> list[PlainRow]:
    """The rows of a problem: `level1/94_MSELoss`, its file, or the stem alone where no other level
    has it. Raises `RequestError` where several have."""
    file = Path(asked)
    there = {str(row["problem"]) for row in rows}
    wanted = there & {asked, file.stem, catalog.short_name(file)}
    wanted = wanted or {name for name in there if name.rpartition("/")[2] == asked}
    if len(wanted) > 1:
        listed = ", ".join(map(one_line, sorted(wanted)))
        raise RequestError(f"several problems are called {asked}: name one of {listed}")
    return [row for row in rows if row["problem"] in wanted]


# --- the story ----------------------------------------------------------------------------------


def story(row: PlainRow, folders: Sequence[Path], profile: Profile | None = None) -> dict[str, Any]:
    """All that there is to say, for a program: units as in a results file, missing is None.

    Logs are looked for in logs/ of `folders`, as `boards.log_file` does.
    """
    status = str(row["status"])
    means, _ = meanings.meaning(row)
    found = boards.log_file(row, folders)
    log = found.read_text(encoding="utf-8", errors="replace") if found else ""
    wrong = status in (Status.WRONG_OUTPUT.value, Status.WRONG_GRADIENT.value)
    names = ("problem", "solution", "size", "dtype", "device_name", "time", "settings")
    return {
        **{name: row[name] for name in (*names, "solution_digest")},
        "status": status,
        "phase": row["phase"],
        "means": means,
        "message": row["message"],
        "differs": row["message"] if wrong else None,
        "log": str(found) if found else None,
        "log_lines": list(_log_lines(log)),
        "modes": {m: _mode(row, m) for m in MODES if is_number(row[f"{m}_solution_ms"])},
        "bound": list(_bounds(row)),
        "memory_mib": {
            name: row[f"{name}_peak_mib"]
            for name in ("inference", "training", "reference_inference", "reference_training")
        },
        "error_ratio": row["error_ratio"],
        "own_share": row["own_share"],
        "flags": {flag: meanings.flag_meaning(flag) for flag in str(row["flags"] or "").split()},
        "next": list(_next(row)),
        "profile": profile_tables.plain(profile) if profile else None,
    }


def _log_lines(log: str) -> Iterator[str]:
    """The first lines that say what went wrong: a compiler's, else the exception's."""
    lines = [one_line(line)[:300] for line in log.splitlines()]
    lines = [line for line in lines if not _AROUND.match(line)]
    said = [line for line in lines if _DIAGNOSTIC.search(line)] or [
        line for line in lines if _RAISED.match(line)
    ]
    yield from list(dict.fromkeys(said))[:LOG_LINES]


def _mode(row: PlainRow, mode: str) -> dict[str, Any]:
    figures: dict[str, Any] = {name: row[f"{mode}_{name}"] for name in _FIGURES}
    time, fraction, moved, flops = (
        figures[n] for n in ("solution_ms", "limit_fraction", "least_bytes", "least_flops")
    )
    known = is_number(time) and time > 0
    return figures | {
        "limit_ms": fraction * time if known and is_number(fraction) else None,
        "bytes_per_s": moved / time * 1e3 if known and is_number(moved) else None,
        "flops_per_s": flops / time * 1e3 if known and is_number(flops) else None,
    }


def _bounds(row: PlainRow) -> Iterator[str]:
    """What each mode is bound by, in words."""
    flags = str(row["flags"] or "").split()
    for mode in MODES:
        fraction = row[f"{mode}_limit_fraction"]
        if not is_number(fraction):
            continue
        name = MODE_NAMES.get(mode, mode)
        what = {"memory": "memory bandwidth", "compute": "matrix arithmetic"}.get(
            str(row[f"{mode}_bound"]), "memory bandwidth or matrix arithmetic"
        )
        host = [flag for flag in ("host_bound", "launch_bound") if f"{mode}:{flag}" in flags]
        if fraction >= NEAR_LIMIT:  # of the device's time: the host can be slower all the same
            yield f"{name}: by {what}, at {fraction:.0%} of what this device can do"
        elif host:
            yield f"{name}: by the host: {meanings.FLAGS[host[0]]}"
        else:
            yield (
                f"{name}: {what} alone would take {fraction:.0%} of its time; the rest is "
                "more traffic than needed, too little of it at once, or waiting"
            )


def _next(row: PlainRow) -> Iterator[str]:
    """What to try, the most telling first."""
    _, advice = meanings.meaning(row)
    if advice:
        yield advice
    share, own, reference = (
        row[n] for n in ("own_share", "training_peak_mib", "reference_training_peak_mib")
    )
    if is_number(share) and 0 < share < NEAR_LIMIT:
        yield f"{1 - share:.0%} of the time is in PyTorch's kernels: fuse them as well"
    if is_number(own) and is_number(reference) and own > 1.05 * reference:
        yield "it needs more memory than the reference: look for copies and saved intermediates"
    slowest = min(
        ((f, m) for m in MODES if is_number(f := row[f"{m}_limit_fraction"])), default=None
    )
    if slowest is None:
        return
    fraction, mode = slowest
    name = MODE_NAMES.get(mode, mode)
    if fraction >= NEAR_LIMIT:
        yield "every mode is near its limit: only less work would help (fuse, or a smaller dtype)"
    else:
        how = "far" if fraction < FAR_FROM_LIMIT else "near"
        how = "compute" if row[f"{mode}_bound"] == "compute" else how
        advice = (meanings.ON_GPU if row["cuda"] else meanings.ON_CPU)[how]
        yield f"{name} is furthest from its limit: {advice}"


# --- for a person -------------------------------------------------------------------------------


def screen(told: dict[str, Any], profile: Profile | None = None) -> RenderableType:
    """The story as text."""
    lines: list[tuple[str, str]] = [
        (
            f"{told['problem']} / {told['solution']}, size {told['size']}, {told['dtype']}, "
            f"on {told['device_name']}",
            "bold",
        ),
        (f"{told['status']}: {told['means']} (phase {told['phase']}, {told['time']})", ""),
    ]
    if told["message"]:
        lines.append((f"  {told['message']}", ""))
    if told["settings"] not in (None, "default"):
        lines.append((f"  settings: {told['settings']}", ""))
    lines += _section("log", told["log_lines"], told["log"])
    lines += _section("times", [_told(m, f) for m, f in told["modes"].items()])
    lines += _section("bound", told["bound"])
    memory = told["memory_mib"]
    peak = pair(memory["training"], memory["reference_training"], MEMORY, "/")
    ratio = told["error_ratio"]
    facts = [f"training peak, solution / reference: {peak}"] if memory["training"] else []
    facts += [f"error over eager's, against float64: {ratio:.3g}"] if is_number(ratio) else []
    lines += _section("memory and accuracy", facts)
    flags = [f"{flag}: {text}" if text else flag for flag, text in told["flags"].items()]
    lines += _section("flags", flags)
    lines += _section("next", told["next"])
    texts = [
        Text(("  " if text.startswith("  ") else "") + one_line(text), style=style)
        for text, style in lines
    ]
    return Group(*texts, *([Text(""), profile_tables.screen(profile)] if profile else []))


def _section(title: str, lines: Sequence[str], where: str | None = None) -> list[tuple[str, str]]:
    if not lines and not where:
        return []
    head = f"{title} ({where})" if where else title
    return [("", ""), (head, "bold"), *((f"  {line}", "") for line in lines)]


def _told(mode: str, figures: dict[str, Any]) -> str:
    """One mode in one line."""
    times = pair(figures["reference_ms"], figures["solution_ms"], TIME, "→")
    parts = [f"{MODE_NAMES.get(mode, mode)}: {times}"]
    if is_number(figures["speedup"]):
        bounds = figures["low"], figures["high"]
        parts.append(f"speedup {speedup(figures['speedup'], *bounds)}")
    else:
        parts.append("no speedup is credited")
    if is_number(figures["limit_ms"]):
        limit = quantity(figures["limit_ms"], TIME)
        parts.append(f"{figures['limit_fraction']:.0%} of the limit ({limit})")
    if is_number(figures["least_bytes"]):
        moved = quantity(figures["least_bytes"] / 2**20, MEMORY)
        rate = plots.rate(figures["least_bytes"], figures["solution_ms"])
        parts.append(f"moves {moved} at least: {rate}B/s")
    if figures["least_flops"]:
        rate = plots.rate(figures["least_flops"], figures["solution_ms"])
        parts.append(f"{rate}FLOP/s")
    return ", ".join(parts)
