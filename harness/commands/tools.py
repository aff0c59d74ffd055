"""The commands beside the main job: arguments -> what to show, and the exit status.

Nothing here prints: cli.py shows what a command returns, a text as it is. Commands about rows
that are there already: rows.py.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.text import Text

from harness import ROOT, catalog, config
from harness.commands import doctor, fitness, rows, scaffold, suites
from harness.commands.arguments import add_files, add_filter, add_places, filter_of, parser_of
from harness.commands.findings import State
from harness.commands.suites import Outcome
from harness.errors import MachineError, RequestError
from harness.report import compare_tables, comparison
from harness.report.tables import one_line


def compare(arguments: list[str]) -> Outcome:
    """Results files side by side; exit status 1 for a regression, if that was asked for."""
    parser = parser_of(
        "compare",
        "Results files side by side: across devices, or two runs on one device.",
    )
    add_files(parser)
    add_filter(parser)
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
    found = comparison.read(options.files, filter_of(options))
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
        return compare_tables.markdown(found), status
    return compare_tables.screen(found), status


def examine(arguments: list[str]) -> Outcome:
    """What this machine can do; exit status 3 where the main job would not work."""
    parser = parser_of(
        "doctor",
        "What this machine can do, and the command that mends what it cannot. "
        "Exit status 0 only if `run_eval.py --problem kl_div` would work.",
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    findings = doctor.examine(parser.parse_args(arguments).device)
    styles = {State.OK: "green", State.WARNING: "yellow", State.MISSING: "red"}
    wide, text = max((len(one.name) for one in findings), default=0), Text()
    for one in findings:
        text.append(f"{one.name:{wide}}  ")
        text.append(f"{one.state.value:7}", style=styles[one.state])
        text.append(f"  {one_line(one.detail)}\n")
    text.append("\n")
    for one in findings:
        text.append(f"{one.name}: {one_line(one.remedy)}\n" if one.remedy else "")
    fine = doctor.works(findings)
    verdict = "run_eval.py --problem kl_div " + ("works here" if fine else "would not work here")
    return text.append(verdict), 0 if fine else MachineError.exit_status


def lint(arguments: list[str]) -> Iterator[Outcome]:
    """Which problems are fit to judge by, each as soon as it is known: many take hours. Exit status
    1 for one that is not."""
    parser = parser_of(
        "lint",
        "Is a problem fit to judge by? Mutants of its reference (zeros, an input "
        "unread, half of the data, an operation skipped, ...) must fail by the rules that "
        "solutions are judged by. Those that do not are listed, with their error.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--problem", help="a problem's name, or the path of a problem file")
    what.add_argument("--all", action="store_true", help="every problem")
    add_places(parser, solutions=False)
    parser.add_argument(
        "--size", help="auto (smoke where there is one), full, fit, another size, or constants"
    )
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
    found = []
    for one in fitness.examine(names, options.problem_dir, settings):
        found.append(one)
        fit = one.fit(strict=options.strict)
        yield fitness.screen(one, strict=options.strict), 0 if fit else 1
    if (legend := fitness.legend(found)) is not None:
        yield legend, 0


def new(arguments: list[str]) -> Outcome:
    """Write a skeleton that evaluates as it is, and say how to go on."""
    parser = parser_of(
        "new",
        "Write the skeleton of a problem or of a solution. It evaluates as it is.",
    )
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="problem|solution")
    problem = kinds.add_parser("problem", help="a problem file: new problem NAME")
    problem.add_argument("name", help="letters, digits, _ and -")
    solution = kinds.add_parser("solution", help="a solution file: new solution PROBLEM NAME")
    solution.add_argument("problem", help="a problem's name, or the path of a problem file")
    solution.add_argument("name", help="letters, digits, _ and -")
    languages = ", ".join(scaffold.LANGUAGES)
    solution.add_argument("--language", default="cuda", help=f"{languages}; default: cuda")
    add_places(problem, solutions=False)
    add_places(solution)
    options = parser.parse_args(arguments)
    if options.kind == "problem":
        path = scaffold.new_problem(options.name, options.problem_dir)
        then = ["new", "solution", options.name, "mine"]
    else:
        places = (options.problem_dir, options.solution_dir)
        path = scaffold.new_solution(options.problem, options.name, options.language, *places)
        then = ["--problem", options.problem, "--solution", str(path)]
    if options.problem_dir != ROOT / "problems":
        then += ["--problem-dir", str(options.problem_dir)]
    return f"wrote {path}: look for TODO\nthen: python run_eval.py {shlex.join(then)}", 0


COMMANDS: dict[str, Callable[[list[str]], Outcome | Iterator[Outcome]]] = {
    "compare": compare,
    "doctor": examine,
    "lint": lint,
    "new": new,
    **rows.COMMANDS,
    **suites.COMMANDS,
}
