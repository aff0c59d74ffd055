"""The commands beside the main job: arguments -> what to show, and the exit status.

Nothing here prints: cli.py shows what a command returns, a text as it is.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness import (
    catalog,
    comparison,
    config,
    doctor,
    exports,
    fitness,
    imports,
    metrics,
    report_compare,
    report_metrics,
    results,
    run,
    scaffold,
)
from harness.errors import MachineError, RequestError
from harness.findings import State
from harness.records import Value
from harness.report import one_line

NOTES = 10  # shown at most
Outcome = tuple[RenderableType, int]  # what to show, exit status


def compare(arguments: list[str]) -> Outcome:
    """Results files side by side; exit status 1 for a regression, if that was asked for."""
    parser = argparse.ArgumentParser(
        prog="run_eval.py compare",
        description="Results files side by side: across devices, or two runs on one device.",
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE.csv", help="results files")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="one JSON object on standard output")
    how.add_argument("--markdown", action="store_true", help="for a README or a pull request")
    parser.add_argument(
        "--fail-on-regression",
        action="store_true",
        help="exit status 1 if, between the last two runs on a device, anything got slower "
        "beyond its interval or is no longer credited",
    )
    options = parser.parse_args(arguments)
    found = comparison.read(options.files)
    if options.fail_on_regression and not any(pair.compared for pair in found.pairs):
        raise RequestError(
            "--fail-on-regression needs two files with rows of the same problem, solution, size "
            "and dtype on one device: there are none"
        )
    regressed = any(pair.regressed for pair in found.pairs)
    status = 1 if options.fail_on_regression and regressed else 0
    if options.json:
        return json.dumps(comparison.plain(found), indent=1, allow_nan=False), status
    if options.markdown:
        return report_compare.markdown(found), status
    return report_compare.screen(found), status


def examine(arguments: list[str]) -> Outcome:
    """What this machine can do; exit status 3 where the main job would not work."""
    parser = argparse.ArgumentParser(
        prog="run_eval.py doctor",
        description="What this machine can do, and the command that mends what it cannot. "
        "Exit status 0 only if `run_eval.py --problem kl_div` would work.",
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    findings = doctor.examine(parser.parse_args(arguments).device)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for header in ("", "state", "found"):
        table.add_column(header, overflow="fold")
    styles = {State.OK: "green", State.WARNING: "yellow", State.MISSING: "red"}
    for one in findings:
        state = Text(one.state.value, style=styles[one.state])
        table.add_row(one.name, state, Text(one_line(one.detail)))
    # Below the table, where a command stays one line.
    remedies = [Text(f"{one.name}: {one_line(one.remedy)}") for one in findings if one.remedy]
    fine = doctor.works(findings)
    verdict = "run_eval.py --problem kl_div " + ("works here" if fine else "would not work here")
    return Group(table, Text(""), *remedies, Text(verdict)), 0 if fine else MachineError.exit_status


def lint(arguments: list[str]) -> Outcome:
    """Which problems are fit to judge by; exit status 1 where one is not."""
    parser = argparse.ArgumentParser(
        prog="run_eval.py lint",
        description="Is a problem fit to judge by? Mutants of its reference (zeros, an input "
        "unread, half of the data, an operation skipped, ...) must fail by the rules that "
        "solutions are judged by. Those that do not are listed, with their error.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--problem", help="a problem's name, or the path of a problem file")
    what.add_argument("--all", action="store_true", help="every problem")
    parser.add_argument("--problem-dir", type=Path, default=run.ROOT / "problems")
    parser.add_argument("--size", help="auto (smoke where there is one), full, or another size")
    parser.add_argument("--device", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--dtype", help="float32, float16, bfloat16 or float64")
    parser.add_argument("--config", type=Path, help="a preset (YAML)")
    parser.add_argument("--strict", action="store_true", help="refuse what is in doubt as well")
    options = parser.parse_args(arguments)
    overrides = {name: getattr(options, name) for name in ("size", "device", "dtype")}
    settings = config.load(options.config, overrides)
    known = catalog.find_problems(options.problem_dir)
    names = [options.problem] if options.problem else sorted(known)
    if not names:
        raise RequestError(f"no problem files in {options.problem_dir}")
    found = fitness.examine(names, options.problem_dir, settings)
    fit = all(one.fit(strict=options.strict) for one in found)
    return fitness.screen(found, strict=options.strict), 0 if fit else 1


def new(arguments: list[str]) -> Outcome:
    """Write a skeleton that evaluates as it is, and say how to go on."""
    parser = argparse.ArgumentParser(
        prog="run_eval.py new",
        description="Write the skeleton of a problem or of a solution. It evaluates as it is.",
    )
    kinds = parser.add_subparsers(dest="kind", required=True)
    problem = kinds.add_parser("problem", help="a problem file: new problem NAME")
    problem.add_argument("name", help="letters, digits, _ and -")
    solution = kinds.add_parser("solution", help="a solution file: new solution PROBLEM NAME")
    solution.add_argument("problem", help="a problem's name, or the path of a problem file")
    solution.add_argument("name", help="letters, digits, _ and -")
    languages = ", ".join(scaffold.LANGUAGES)
    solution.add_argument("--language", default="cuda", help=f"{languages}; default: cuda")
    for kind in (problem, solution):
        kind.add_argument("--problem-dir", type=Path, default=run.ROOT / "problems")
    solution.add_argument("--solution-dir", type=Path, default=run.ROOT / "solutions")
    options = parser.parse_args(arguments)
    if options.kind == "problem":
        path = scaffold.new_problem(options.name, options.problem_dir)
        then = f"new solution {options.name} mine"
    else:
        places = (options.problem_dir, options.solution_dir)
        path = scaffold.new_solution(options.problem, options.name, options.language, *places)
        then = f"--problem {options.problem} --solution {path}"
    if options.problem_dir != run.ROOT / "problems":
        then += f" --problem-dir {options.problem_dir}"
    return f"wrote {path}: look for TODO\nthen: python run_eval.py {then}", 0


def import_set(arguments: list[str]) -> Outcome:
    """A published result set -> problem and solution files, and the command that judges them."""
    parser = argparse.ArgumentParser(
        prog="run_eval.py import",
        description="Write the references and candidates of a result set (JSON Lines) as problem "
        "and solution files. Nothing is run, and no claimed verdict is taken over.",
    )
    parser.add_argument("file", type=Path, help="JSON Lines, or one JSON list")
    parser.add_argument("--to", type=Path, required=True, metavar="DIR", help="a new folder")
    for key, names in imports.COLUMNS.items():
        text = f"its column; known: {', '.join(names)}"
        parser.add_argument(f"--{key}", metavar="COLUMN", help=text)
    options = parser.parse_args(arguments)
    columns = {key: getattr(options, key) for key in imports.COLUMNS}
    found = imports.load(options.file, options.to, columns)
    lines = [
        f"wrote {len(found.problems)} problems and {found.solutions} solutions to {found.folder}"
        + (f", {found.without_code} of them without code" if found.without_code else ""),
        *found.notes[:NOTES],
    ]
    if len(found.notes) > NOTES:
        lines.append(f"and {len(found.notes) - NOTES} more")
    problems = found.problem_dir if found.problems else "KernelBench"
    where = f"--problem-dir {problems} --solution-dir {found.solution_dir}"
    return "\n".join([*lines, f"then: python run_eval.py --all {where}"]), 0


def count(arguments: list[str]) -> Outcome:
    """fast_p, pass@k and geometric means of results files."""
    parser = argparse.ArgumentParser(
        prog="run_eval.py metrics",
        description="fast_p, pass@k and geometric means, as KernelBench's users report them, with "
        "and without what is flagged or not_exercised.",
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE.csv", help="results files")
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
    found = metrics.measure(
        _plain_rows(options.files),
        thresholds=options.p,
        ks=options.k,
        samples=options.samples,
        problems=catalog.find_problems(options.problem_dir) if options.problem_dir else (),
    )
    if not found.sections:
        told = ", ".join(f"{n} {status}" for status, n in found.left_out.items()) or "no rows"
        raise RequestError(f"nothing to count in these files: {told}")
    if options.json:
        return json.dumps(report_metrics.plain(found), indent=1, allow_nan=False), 0
    return (report_metrics.markdown if options.markdown else report_metrics.screen)(found), 0


def export(arguments: list[str]) -> Outcome:
    """Results in another tool's form."""
    parser = argparse.ArgumentParser(
        prog="run_eval.py export", description="Results in the form that another tool reads."
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE.csv", help="results files")
    parser.add_argument("--format", choices=exports.FORMATS, default="kernelbench")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="a folder")
    folder = run.ROOT / "results" / "raw"
    parser.add_argument("--raw", type=Path, default=folder, help="raw samples, for the spread")
    options = parser.parse_args(arguments)
    write = exports.FORMATS[options.format]
    done = write(_plain_rows(options.files), options.output, options.raw)
    lines = [f"wrote {path}" for path in done.files]
    if done.left_out:
        told = ", ".join(f"{number} {why}" for why, number in done.left_out.items())
        lines.append(f"rows left out: {told}")
    return "\n".join(lines), 0


def _plain_rows(paths: list[Path]) -> list[dict[str, Value]]:
    """The rows of files together; of equal results the newest."""
    frame = pd.concat([results.read(path) for path in paths], ignore_index=True)
    return results.plain(results.latest(frame))


def _numbers(text: str) -> tuple[float, ...]:
    values = tuple(float(part) for part in text.split(","))
    if any(not 0 <= value < math.inf for value in values):
        raise ValueError(text)
    return values


def _wholes(text: str) -> tuple[int, ...]:
    values = tuple(int(part) for part in text.split(","))
    if any(value < 1 for value in values):
        raise ValueError(text)
    return values


COMMANDS: dict[str, Callable[[list[str]], Outcome]] = {
    "compare": compare,
    "doctor": examine,
    "export": export,
    "import": import_set,
    "lint": lint,
    "metrics": count,
    "new": new,
}
