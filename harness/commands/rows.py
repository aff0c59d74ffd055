"""Commands about rows: arguments -> what to show, and the exit status."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import RenderableType

from harness import ROOT, config, files, fit, recompute, run
from harness.commands import explain
from harness.commands.arguments import Once, add_files, add_filter, add_places, filter_of, parser_of
from harness.errors import MachineError, RequestError
from harness.judge import profiling
from harness.judge.profiling import Profile
from harness.judge.subject import Subject
from harness.report import page, picture, profile_tables

Outcome = tuple[RenderableType, int]  # what to show, exit status
#: Of a report: results files -> its text.
FORMATS = {"html": page.html, "markdown": page.markdown, "svg": picture.svg}


def show(arguments: list[str]) -> Outcome:
    """Results as a page that needs no network, or as Markdown."""
    parser = parser_of(
        "report",
        "Results as one HTML file that needs nothing else: leaderboards, a roofline, raw samples, "
        "logs. Raw samples and logs are taken from raw/ and logs/ beside each file. Or as tables "
        "in Markdown, or the speedups as a picture, for a README.",
    )
    add_files(parser)
    add_filter(parser)
    parser.add_argument("--format", choices=tuple(FORMATS), default="html")
    parser.add_argument(
        "--output", type=Path, help="the file to write; Markdown goes to standard output without it"
    )
    options = parser.parse_args(arguments)
    if options.output is None and options.format != "markdown":
        raise RequestError(f"name the file to write with --output FILE.{options.format}")
    if options.output is not None and options.output.is_dir():
        raise RequestError(f"{options.output} is a folder: name a file in it with --output")
    if options.output and options.output.resolve() in [file.resolve() for file in options.files]:
        raise RequestError(f"{options.output} holds the results: name another file with --output")
    text = FORMATS[options.format](options.files, filter_of(options))
    if options.output is None:
        return text, 0
    try:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        files.replace(options.output, f"{text}\n".encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise MachineError(f"{options.output} cannot be written: {error.strerror}") from None
    return f"wrote {options.output}", 0


def tell(arguments: list[str]) -> Outcome:
    """Everything about the newest result of a solution."""
    parser = parser_of(
        "explain",
        "The whole story of a result: why this verdict, the compiler's first lines, where results "
        "differ, what bounds each mode, what to try next.",
    )
    _add_subject(parser)
    add_files(parser, "*", "; default: those in results/")
    text = "run it (on --device), and list its kernels"
    parser.add_argument("--profile", action="store_true", help=text)
    options = parser.parse_args(arguments)
    paths = options.files or sorted((ROOT / "results").glob("*.csv"))
    row = explain.find(
        paths,
        options.problem,
        options.solution,
        size=None if options.size in ("auto", fit.FIT) else options.size,
        dtype=options.dtype,
    )
    profile = _profile(options, None) if options.profile else None
    folders = [path.resolve().parent for path in paths]
    story = explain.story(row, folders, profile)
    if options.json:
        return json.dumps(story, indent=1, allow_nan=False), 0
    return explain.screen(story, profile), 0


def kernels(arguments: list[str]) -> Outcome:
    """The kernels of both sides; exit status 1 where the solution has none to show."""
    parser = parser_of(
        "profile",
        "The kernels of reference and solution side by side: calls, time, share, registers, shared "
        "memory; on a CPU, PyTorch's operators.",
    )
    _add_subject(parser)
    parser.add_argument("--mode", help="forward, forward_train, backward or forward_backward")
    options = parser.parse_args(arguments)
    found = _profile(options, options.mode)
    status = 1 if found.fault else 0
    if options.json:
        return json.dumps(profile_tables.plain(found), indent=1, allow_nan=False), status
    return profile_tables.screen(found), status


def again(arguments: list[str]) -> Outcome:
    """Do a file's figures follow from the raw samples? Exit status 1 if one does not."""
    parser = parser_of(
        "recompute",
        "Work out the figures of a results file again from the raw samples.",
    )
    parser.add_argument("file", type=Path, metavar="FILE.csv", help="a results file")
    text = "raw samples; default: raw/ beside the file"
    parser.add_argument("--raw", type=Path, metavar="DIR", help=text)
    options = parser.parse_args(arguments)
    compared = recompute.compare(options.file, options.raw or options.file.parent / "raw")
    differs = any(comparison.differences for comparison in compared)
    return recompute.table(compared), 1 if differs else 0


def _add_subject(parser: argparse.ArgumentParser) -> None:
    """Which solution, and how it is run where it is."""
    parser.add_argument("--problem", required=True, action=Once, help="a problem's name, or a path")
    parser.add_argument(
        "--solution", required=True, action=Once, help="a solution's name, or a path"
    )
    parser.add_argument("--device", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--dtype", help="float32, float16, bfloat16 or float64")
    parser.add_argument("--size", help="auto, full, fit, a size of the problem, or constants")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_places(parser)


def _profile(options: argparse.Namespace, mode: str | None) -> Profile:
    """Profile what the options name, here and now."""
    overrides = {name: getattr(options, name) for name in ("device", "dtype", "size")}
    request = run.Request(
        settings=config.load(None, overrides),
        problem=options.problem,
        solution=options.solution,
        problem_dir=options.problem_dir,
        solution_dir=options.solution_dir,
    )
    (job,) = run.find(request)
    if job.fault is not None:
        raise job.fault
    context = run.make_context(request)
    run.require(context, [job])
    size = fit.settled(
        run.size_of(request.settings, context, job),
        job.problem.source,
        job.problem.path,
        dtype=getattr(torch, request.settings.dtype),
        device=context.device.torch,
    )
    subject = Subject(problem=job.problem, size=size)
    return profiling.take(context, subject, job.solutions[0], mode)


COMMANDS: dict[str, Callable[[list[str]], Outcome]] = {
    "recompute": again,
    "report": show,
    "explain": tell,
    "profile": kernels,
}
