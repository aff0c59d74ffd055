"""Arguments -> work, and exit codes.

Exit status: 0 every evaluated solution passed or was skipped; 1 some did not; 2 the request
was wrong; 3 this machine cannot do it; 130 interrupted; 141 whoever read the output is gone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from harness.commands import options as asked
from harness.commands import terminal
from harness.errors import HarnessError
from harness.judge.process import headstart
from harness.records import Row

if TYPE_CHECKING:
    from harness import run

EXIT_INTERRUPTED = 130
EXIT_NO_READER = 141  # as of a program that SIGPIPE ended
#: Commands beside evaluating, and what each is for. They are in commands/tools.py, which imports
#: all that they need.
OTHERS = {
    "explain": "why a solution has its verdict, and what to try next",
    "profile": "the kernels of reference and solution",
    "compare": "results files side by side; two runs of one device",
    "report": "results as one HTML file, or Markdown",
    "recompute": "whether a file's figures follow from its raw samples",
    "new": "skeletons of a problem and of a solution",
    "lint": "whether a problem is fit to judge by",
    "doctor": "what this machine can do, and what to install",
    "import": "a published result set, as files to judge",
    "metrics": "fast_p, pass@k and geometric means",
    "export": "results as KernelBench's scripts read them",
}


def main(arguments: list[str]) -> int:
    """Run the command line; returns the exit status."""
    terminal.open_streams()
    try:
        return _run(arguments)
    except terminal.ReaderGone:
        return EXIT_NO_READER


def _run(arguments: list[str]) -> int:
    named = bool(arguments) and arguments[0] in COMMANDS
    name, rest = (arguments[0], arguments[1:]) if named else ("evaluate", arguments)
    try:
        return COMMANDS[name](rest)
    except HarnessError as error:
        terminal.tell(f"error: {error}")
        return error.exit_status
    except KeyboardInterrupt:
        kept = "; the rows so far are kept" if name == "evaluate" else ""
        terminal.tell(f"interrupted{kept}")
        return EXIT_INTERRUPTED


def _evaluate(arguments: list[str]) -> int:
    """The main job."""
    options = asked.parse(arguments, OTHERS)
    settings = asked.settings(options)
    if options.devices is None and options.ray is None:
        headstart.take(settings)
    from harness import identity, run  # with torch: seconds, in which the first worker starts too

    request = run.Request(
        settings=settings,
        problem=options.problem,
        solution=options.solution,
        problem_dir=options.problem_dir,
        solution_dir=options.solution_dir,
        output=options.output,
        fresh=options.fresh,
        build_only=options.build_only,
        require_backward=options.require_backward,
        self_check=options.self_check,
    )
    if options.watch:
        return _watch(request, json_rows=options.json)
    with terminal.Screen(json_rows=options.json) as screen:
        rows = _execute(request, options, screen)
    if not options.json:
        _print_tables(rows)
    fine = _status(rows) == 0
    for row in rows if options.self_check else ():
        for complaint in identity.complaints(row):
            terminal.tell(f"{row.problem}: the reference against itself: {complaint}")
            fine = False
    return 0 if fine else 1


def _execute(
    request: run.Request, options: argparse.Namespace, screen: terminal.Screen
) -> list[Row]:
    """On one device, on several of this machine, or on a cluster."""
    from harness import run
    from harness.fleet import cluster, host

    if options.devices is not None:
        return host.execute(request, options.devices, screen)
    if options.ray is not None:
        return cluster.execute(request, options.ray or None, screen)
    return run.execute(request, screen)


def _status(rows: list[Row]) -> int:
    return 0 if all(row.fine for row in rows) else 1


def _watch(request: run.Request, *, json_rows: bool) -> int:
    """Evaluate whenever a file is saved, until interrupted; the exit status of the last rows."""
    from harness.commands import watch

    status: int | None = None
    watcher = watch.Watcher(request)
    try:
        while True:
            seen: watch.Seen | None = None
            try:
                with terminal.Screen(json_rows=json_rows) as screen:
                    seen = watcher.evaluate(screen)
            except HarnessError as error:
                if status is None:
                    raise  # nothing that saving a file would mend
                terminal.tell(f"error: {error}")
            if seen is not None:
                status = _status(seen.rows)
                if not json_rows:
                    _print_tables(seen.rows)
                for line in seen.changes:
                    (terminal.tell if json_rows else terminal.say)(line)
            terminal.tell("watching; Ctrl-C ends")
            watcher.wait()
    except KeyboardInterrupt:
        terminal.tell("watched no longer; the rows so far are kept")
        return EXIT_INTERRUPTED if status is None else status


def _print_tables(rows: list[Row]) -> None:
    from harness.report import tables

    for problem in dict.fromkeys(row.problem for row in rows):
        terminal.show(tables.verdict_table([r for r in rows if r.problem == problem]))


def _shown(name: str) -> Callable[[list[str]], int]:
    """A command of commands/tools.py, its outcomes printed as they come: a text as it is, else
    rendered."""

    def run_it(arguments: list[str]) -> int:
        from harness.commands import tools

        worst = 0
        with terminal.warnings_to(lambda text: terminal.tell(f"warning: {text}")):
            outcome = tools.COMMANDS[name](arguments)
            for shown, status in [outcome] if isinstance(outcome, tuple) else outcome:
                if isinstance(shown, str):
                    terminal.say(shown)
                else:
                    terminal.show(shown)
                worst = max(worst, status)
        return worst

    return run_it


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "evaluate": _evaluate,
    **{name: _shown(name) for name in OTHERS},
}
