"""The commands for suites from elsewhere: arguments -> what to show, and the exit status."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
from rich.console import RenderableType

from harness import catalog, results
from harness.commands import imports, result_sets
from harness.commands.arguments import add_files, parser_of
from harness.errors import ProblemError, RequestError
from harness.records import Value
from harness.report import exports, metrics, metrics_tables
from harness.report.tables import one_line
from harness.source import read_problem
from harness.wording import counted

Outcome = tuple[RenderableType, int]  # what to show, exit status
NOTES = 10  # shown at most
OLDER = "older than another row of the same solution"


def import_set(arguments: list[str]) -> Outcome:
    """A published result set -> problem and solution files, and the command that judges them."""
    parser = parser_of(
        "import",
        "Write the references and candidates of a result set (JSON Lines) as problem "
        "and solution files. Nothing is run, and no claimed verdict is taken over.",
    )
    parser.add_argument("file", type=Path, help="JSON Lines, or one JSON value")
    parser.add_argument("--to", type=Path, required=True, metavar="DIR", help="a new folder")
    for key, names in result_sets.COLUMNS.items():
        text = f"its column; known: {', '.join(names)}"
        parser.add_argument(f"--{key}", metavar="COLUMN", help=text)
    options = parser.parse_args(arguments)
    columns = {key: getattr(options, key) for key in result_sets.COLUMNS}
    found = imports.load(options.file, options.to, columns)
    lines = [
        f"wrote {counted(len(found.problems), 'problem')} and "
        f"{counted(found.solutions, 'solution')} to {found.folder}"
        + (f", {found.without_code} of them without code" if found.without_code else ""),
        *found.notes[:NOTES],
    ]
    if len(found.notes) > NOTES:
        lines.append(f"and {len(found.notes) - NOTES} more")
    problems = found.problem_dir if found.problems else "KernelBench"
    then = ["--all", "--problem-dir", str(problems), "--solution-dir", str(found.solution_dir)]
    return "\n".join([*lines, f"then: python run_eval.py {shlex.join(then)}"]), 0


def count(arguments: list[str]) -> Outcome:
    """fast_p, pass@k and geometric means of results files."""
    parser = parser_of(
        "metrics",
        "fast_p, pass@k and geometric means, as KernelBench's users report them, with "
        "and without what is flagged or not_exercised.",
    )
    add_files(parser)
    parser.add_argument("-p", type=_numbers, default=metrics.THRESHOLDS, help="such as 0,1,2")
    parser.add_argument("-k", type=_wholes, default=(1,), help="of pass@k, such as 1,5,10")
    parser.add_argument("--samples", choices=metrics.SAMPLES, default="first", help="that count")
    parser.add_argument(
        "--problem-dir", type=Path, help="its problems without a row count as wrong"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="one JSON object on standard output")
    how.add_argument("--markdown", action="store_true", help="for a README")
    options = parser.parse_args(arguments)
    rows, older = _newest(options.files)
    found = metrics.measure(
        rows,
        thresholds=options.p,
        ks=options.k,
        samples=options.samples,
        problems=_problems(options.problem_dir) if options.problem_dir else (),
    )
    if older:
        found = dataclasses.replace(found, left_out={**found.left_out, OLDER: older})
    if not found.sections:
        told = ", ".join(f"{n} {status}" for status, n in found.left_out.items()) or "no rows"
        raise RequestError(f"nothing to count in these files: {told}")
    if options.json:
        return json.dumps(metrics_tables.plain(found), indent=1, allow_nan=False), 0
    return (metrics_tables.markdown if options.markdown else metrics_tables.screen)(found), 0


def export(arguments: list[str]) -> Outcome:
    """Results in another tool's form."""
    parser = parser_of("export", "Results in the form that another tool reads.")
    add_files(parser)
    parser.add_argument("--format", choices=exports.FORMATS, default="kernelbench")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="a folder")
    text = "raw samples, for the spread; default: raw/ beside each file"
    parser.add_argument("--raw", type=Path, metavar="DIR", help=text)
    options = parser.parse_args(arguments)
    raw = [options.raw] if options.raw else [path.parent / "raw" for path in options.files]
    rows, older = _newest(options.files)
    done = exports.FORMATS[options.format](rows, options.output, list(dict.fromkeys(raw)))
    if older:
        done.left_out[OLDER] = older
    lines = [f"wrote {path}" for path in done.files]
    if done.left_out:
        told = ", ".join(f"{number} {why}" for why, number in done.left_out.items())
        lines.append(f"rows left out: {told}")
    if done.untimed:
        names = ", ".join(map(one_line, done.untimed[:NOTES]))
        more = len(done.untimed) - NOTES
        lines.append(
            f"no reference time, since no row is credited: {names}"
            + (f" and {more} more" if more > 0 else "")
            + "; KernelBench's analysis leaves these out of fast_p, which makes it larger: "
            "evaluate with --self-check too, and export both files"
        )
    return "\n".join(lines), 0


def _newest(paths: list[Path]) -> tuple[list[dict[str, Value]], int]:
    """The newest row of each solution in all files, at whatever size; how many were older.
    Raises `RequestError`."""
    frame = pd.concat([results.read(path) for path in paths], ignore_index=True)
    newest = results.latest(frame, [name for name in results.KEY if name != "size"])
    rows = results.plain(newest)
    for row in rows:
        results.require_known(row)
    return rows, len(frame) - len(newest)


def _problems(folder: Path) -> Iterator[str]:
    """The names of a folder's problems. KernelBench's repository has other Python files too."""
    for name, path in catalog.find_problems(folder).items():
        with contextlib.suppress(ProblemError):
            yield read_problem(name, path).name


def _numbers(text: str) -> tuple[float, ...]:
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        values = (math.nan,)
    if any(not 0 <= value < math.inf for value in values):
        raise argparse.ArgumentTypeError(f"{text!r} must be numbers from 0, such as 0,1,2")
    return values


def _wholes(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} must be whole numbers from 1, such as 1,5,10")
    return tuple(int(part) for part in parts)


COMMANDS: dict[str, Callable[[list[str]], Outcome]] = {
    "export": export,
    "import": import_set,
    "metrics": count,
}
