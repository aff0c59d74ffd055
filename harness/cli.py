"""Arguments -> work; the only place that prints; exit codes.

Exit status: 0 every evaluated solution passed or was skipped; 1 some did not; 2 the request
was wrong; 3 this machine cannot do it; 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from harness import ROOT, config
from harness.arguments import parser_of
from harness.config import PRESETS
from harness.errors import HarnessError, RequestError
from harness.judge import headstart
from harness.records import MODES, Row

if TYPE_CHECKING:
    from harness import run

EXIT_INTERRUPTED = 130
#: Commands of commands.py, which imports all that they need.
OTHERS = (
    *("compare", "doctor", "lint", "new", "report", "explain", "profile"),
    *("export", "import", "metrics"),
)


def main(arguments: list[str]) -> int:
    """Run the command line; returns the exit status."""
    named = bool(arguments) and arguments[0] in COMMANDS
    name, rest = (arguments[0], arguments[1:]) if named else ("evaluate", arguments)
    try:
        return COMMANDS[name](rest)
    except HarnessError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        print("interrupted; the rows so far are kept", file=sys.stderr)
        return EXIT_INTERRUPTED


def _evaluate(arguments: list[str]) -> int:
    """The main job."""
    options = _parser().parse_args(arguments)
    if not options.problem and not options.all:
        raise RequestError("name a problem with --problem, or evaluate everything with --all")
    _refuse_together(options)
    if options.quick and options.config:
        raise RequestError("--quick is the preset quick: give it, or --config, not both")
    preset = options.config or ("quick" if options.quick else "default")
    settings = config.load(preset, _overrides(options))
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
    with _Screen(json_rows=options.json) as screen:
        rows = _execute(request, options, screen)
    if not options.json:
        _print_tables(rows)
    fine = _status(rows) == 0
    for row in rows if options.self_check else ():
        for complaint in identity.complaints(row):
            print(f"{row.problem}: the reference against itself: {complaint}", file=sys.stderr)
            fine = False
    return 0 if fine else 1


def _refuse_together(options: argparse.Namespace) -> None:
    """Raises `RequestError` for ways to evaluate of which only one can be."""
    for one, other in (
        ("devices", "device"),
        ("devices", "ray"),
        ("devices", "watch"),
        ("ray", "watch"),
    ):
        if getattr(options, one) is not None and getattr(options, other) not in (None, False):
            raise RequestError(f"--{one} and --{other} do not go together: leave one out")


def _execute(request: run.Request, options: argparse.Namespace, screen: _Screen) -> list[Row]:
    """On one device, on several of this machine, or on a cluster."""
    from harness import cluster, host, run

    if options.devices is not None:
        return host.execute(request, options.devices, screen)
    if options.ray is not None:
        return cluster.execute(request, options.ray or None, screen)
    return run.execute(request, screen)


def _status(rows: list[Row]) -> int:
    return 0 if all(row.fine for row in rows) else 1


def _watch(request: run.Request, *, json_rows: bool) -> int:
    """Evaluate whenever a file is saved, until interrupted; the exit status of the last rows."""
    from harness import watch

    status: int | None = None
    watcher = watch.Watcher(request)
    try:
        while True:
            with _Screen(json_rows=json_rows) as screen:
                try:
                    seen = watcher.evaluate(screen)
                except HarnessError as error:
                    if status is None:
                        raise  # nothing that saving a file would mend
                    print(f"error: {error}", file=sys.stderr)
                else:
                    status = _status(seen.rows)
                    if not json_rows:
                        _print_tables(seen.rows)
                    for line in seen.changes:
                        print(line, file=sys.stderr if json_rows else sys.stdout)
            print("watching; Ctrl-C ends", file=sys.stderr, flush=True)
            watcher.wait()
    except KeyboardInterrupt:
        print("watched no longer; the rows so far are kept", file=sys.stderr)
        return EXIT_INTERRUPTED if status is None else status


def _print_tables(rows: list[Row]) -> None:
    from harness import report

    for problem in dict.fromkeys(row.problem for row in rows):
        _print(report.verdict_table([r for r in rows if r.problem == problem]))


def _print(shown: RenderableType) -> None:
    """On a terminal text is wrapped; in a pipe each note stays one line."""
    console = Console()
    console.print(shown, soft_wrap=not console.is_terminal)


def _recompute(arguments: list[str]) -> int:
    """Do a file's figures follow from the raw samples? Exit status 1 if one does not."""
    from harness import recompute

    parser = parser_of(
        "recompute",
        "Work out the figures of a results file again from the raw samples.",
    )
    parser.add_argument("file", type=Path, help="a results CSV")
    parser.add_argument("--raw", type=Path, help="default: raw/ beside the file")
    options = parser.parse_args(arguments)
    compared = recompute.compare(options.file, options.raw or options.file.parent / "raw")
    _print(recompute.table(compared))
    return 1 if any(comparison.differences for comparison in compared) else 0


def _shown(name: str) -> Callable[[list[str]], int]:
    """A command of commands.py, its outcome printed: a text as it is, else rendered."""

    def run_it(arguments: list[str]) -> int:
        from harness import commands

        shown, status = commands.COMMANDS[name](arguments)
        if isinstance(shown, str):
            print(shown)
        else:
            _print(shown)
        return status

    return run_it


class _Warnings(logging.Handler):
    """Shows what the harness logs: one line each."""

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        self._show(record.getMessage())


class _Screen:
    """Shows progress on standard error: a live line on a terminal, plain lines elsewhere; rows as
    JSON if asked. Standard output is for these alone: what a problem file prints is shown too."""

    def __init__(self, *, json_rows: bool) -> None:
        self._json = json_rows
        self._console = Console(stderr=True)
        self._where = ""
        self._last = ""
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal or (json_rows and sys.stdout.isatty()),
        )
        self._task = self._progress.add_task("starting", total=None)
        self._handler = _Warnings(self.warn)

    def __enter__(self) -> _Screen:
        logging.getLogger("harness").addHandler(self._handler)
        self._out = sys.stdout  # beneath a live line, rich puts the terminal in its place
        self._aside = contextlib.redirect_stdout(sys.stderr)
        self._aside.__enter__()
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
        self._aside.__exit__(None, None, None)
        logging.getLogger("harness").removeHandler(self._handler)

    def begin(self, problem: str, solution: str, size: str) -> None:
        self._where = f"{problem} / {solution}" + (f" ({size})" if size else "")
        self.note("start")

    def note(self, text: str) -> None:
        where = f"{self._where}: " if self._where else ""
        self._progress.update(self._task, description=f"{where}{text}")
        step = text.split(":")[0]
        if not self._console.is_terminal and step != self._last:
            self._line(f"{where}{step}")
        self._last = step

    def row(self, row: Row) -> None:
        if self._json:
            from harness import report

            print(json.dumps(report.plain_rows([row])[0]), file=self._out, flush=True)
        self._where = ""
        seconds = f" in {row.total_s:.1f} s" if row.total_s is not None else ""
        self._line(f"{row.problem} / {row.solution}: {row.verdict.status.value}{seconds}")

    def warn(self, text: str) -> None:
        self._line(f"warning: {text}")

    def _line(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _overrides(options: argparse.Namespace) -> dict[str, object]:
    names = (
        *("device", "dtype", "size", "trials", "cuda_arch", "sandbox", "modes"),
        "require_own_kernels",
    )
    given = {name: getattr(options, name) for name in names}
    if options.fresh:
        given["keep_baseline"] = False
    return {name: value for name, value in given.items() if value is not None}


def _parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "",
        "Evaluate GPU kernels against their reference.",
        epilog="Other commands: " + ", ".join(c for c in COMMANDS if c != "evaluate")
        if len(COMMANDS) > 1
        else None,
    )
    presets = ", ".join(sorted(path.stem for path in PRESETS.glob("*.yaml")))
    add = parser.add_argument
    add("--problem", help="a problem's name, or the path of a problem file")
    add("--solution", help="one solution: a name, or the path of any .py, .txt or .md file")
    add("--all", action="store_true", help="every problem")
    add("--problem-dir", type=Path, default=ROOT / "problems", help="folder of problem files")
    add("--solution-dir", type=Path, default=ROOT / "solutions", help="folder of solutions")
    add("--device", help="auto, cpu, cuda or cuda:N")
    add(
        "--devices", help="several at once: all, numbers and UUIDs as nvidia-smi -L has, or cpu,cpu"
    )
    add(
        "--ray",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="on a Ray cluster (pip install .[ray]): all its GPUs, or with --device cpu its CPUs",
    )
    add("--dtype", help="float32, float16, bfloat16 or float64")
    add(
        "--size", help="auto, full, fit, a size that the problem names, or constants: rows=8,dim=64"
    )
    add("--trials", type=int, help="correctness trials, each on fresh secret inputs")
    add("--modes", type=lambda text: tuple(text.split(",")), help="timed: " + ",".join(MODES))
    add(
        "--require-own-kernels",
        action="store_true",
        default=None,
        help="a solution of which no kernel of its own ran is a failure",
    )
    add("--sandbox", help="isolation of workers: auto, default or strict")
    add(
        "--config",
        type=Path,
        help=f"preset: {presets}, or a file; default: default",
    )
    add("--quick", action="store_true", help="a first look: the preset quick, forward alone")
    add(
        "--require-backward",
        action="store_true",
        help="also of suites that ask for a forward only (KernelBench's)",
    )
    add("--self-check", action="store_true", help="judge each reference as its own solution")
    add("--cuda-arch", help="architecture to build for without a GPU, such as 9.0")
    add("--json", action="store_true", help="rows as JSON lines on standard output")
    add(
        "--output",
        type=Path,
        help="results CSV, raw/ and logs/ beside it; default: results/DEVICE.csv",
    )
    add("--fresh", action="store_true", help="use no row or baseline of an earlier run")
    add("--watch", action="store_true", help="evaluate again whenever a file is saved")
    add("--build-only", action="store_true", help="build, do not run; nvcc needs no GPU for it")
    return parser


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "evaluate": _evaluate,
    "recompute": _recompute,
    **{name: _shown(name) for name in OTHERS},
}
