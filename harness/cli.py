"""Arguments -> work; the only place that prints; exit codes.

Exit status: 0 every evaluated solution passed or was skipped; 1 some did not; 2 the request
was wrong; 3 this machine cannot do it; 130 interrupted; 141 whoever read the output is gone.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import io
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from rich.console import Console, RenderableType
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from harness import options as asked
from harness.errors import HarnessError, MachineError
from harness.judge import headstart
from harness.records import MODES, Row

if TYPE_CHECKING:
    from harness import run

EXIT_INTERRUPTED = 130
EXIT_NO_READER = 141  # as of a program that SIGPIPE ended
#: Commands beside evaluating, and what each is for. They are in commands.py, which imports all
#: that they need.
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


class _ReaderGone(Exception):
    """Whoever read the output has closed it (`| head`)."""


def main(arguments: list[str]) -> int:
    """Run the command line; returns the exit status."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by who started this
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):  # what it cannot show is spelled out
            stream.reconfigure(errors="harness.plain")
    try:
        return _run(arguments)
    except _ReaderGone:
        return EXIT_NO_READER


def _run(arguments: list[str]) -> int:
    named = bool(arguments) and arguments[0] in COMMANDS
    name, rest = (arguments[0], arguments[1:]) if named else ("evaluate", arguments)
    try:
        return COMMANDS[name](rest)
    except HarnessError as error:
        _tell(f"error: {error}")
        return error.exit_status
    except KeyboardInterrupt:
        _tell("interrupted; the rows so far are kept")
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
    with _Screen(json_rows=options.json) as screen:
        rows = _execute(request, options, screen)
    if not options.json:
        _print_tables(rows)
    fine = _status(rows) == 0
    for row in rows if options.self_check else ():
        for complaint in identity.complaints(row):
            _tell(f"{row.problem}: the reference against itself: {complaint}")
            fine = False
    return 0 if fine else 1


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
            seen: watch.Seen | None = None
            try:
                with _Screen(json_rows=json_rows) as screen:
                    seen = watcher.evaluate(screen)
            except HarnessError as error:
                if status is None:
                    raise  # nothing that saving a file would mend
                _tell(f"error: {error}")
            if seen is not None:
                status = _status(seen.rows)
                if not json_rows:
                    _print_tables(seen.rows)
                for line in seen.changes:
                    (_tell if json_rows else _say)(line)
            _tell("watching; Ctrl-C ends")
            watcher.wait()
    except KeyboardInterrupt:
        _tell("watched no longer; the rows so far are kept")
        return EXIT_INTERRUPTED if status is None else status


def _print_tables(rows: list[Row]) -> None:
    from harness import report

    for problem in dict.fromkeys(row.problem for row in rows):
        _print(report.verdict_table([r for r in rows if r.problem == problem]))


def _print(shown: RenderableType) -> None:
    """On a terminal text is wrapped, but for what is text alone: the terminal does that, and paths
    and commands can be copied. In a pipe each note stays one line."""
    console = _console(sys.stdout)
    console.print(shown, soft_wrap=isinstance(shown, Text) or not console.is_terminal)


def _console(stream: TextIO) -> Console:
    return Console(file=cast(IO[str], _Stream(stream)))


class _Stream:
    """A stream as rich writes to it, with the failures of `_write`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        _write(text, self._stream)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _say(text: str) -> None:
    """A line on standard output."""
    _write(f"{text}\n", sys.stdout)


def _tell(text: str) -> None:
    """A line on standard error."""
    _write(f"{text}\n", sys.stderr)


def _write(text: str, stream: TextIO) -> None:
    """Raises `_ReaderGone`, or `MachineError` where standard output is a file that is full."""
    try:
        print(text, end="", file=stream, flush=True)
    except OSError as error:
        with Path(os.devnull).open("w") as nowhere:  # what Python writes at its end goes there
            os.dup2(nowhere.fileno(), stream.fileno())
        if isinstance(error, BrokenPipeError) or stream is sys.stderr:
            raise _ReaderGone from None
        raise MachineError(f"cannot write to standard output: {error.strerror}") from None


def _plain(error: UnicodeError) -> tuple[str, int]:
    """What a stream's encoding lacks, in ASCII."""
    from harness import report

    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end].translate(report.ASCII)
    return text.encode("ascii", "backslashreplace").decode(), error.end


codecs.register_error("harness.plain", _plain)


def _shown(name: str) -> Callable[[list[str]], int]:
    """A command of commands.py, its outcome printed: a text as it is, else rendered."""

    def run_it(arguments: list[str]) -> int:
        from harness import commands

        with _warnings_to(lambda text: _tell(f"warning: {text}")):
            shown, status = commands.COMMANDS[name](arguments)
        if isinstance(shown, str):
            _say(shown)
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


@contextlib.contextmanager
def _warnings_to(show: Callable[[str], None]) -> Iterator[None]:
    logger, handler = logging.getLogger("harness"), _Warnings(show)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _step(text: str) -> str:
    """The step that a note is of: `check forward, size odd` of `check forward: values 2, size odd`.
    A step has many notes; where lines stay, each step is one."""
    step, _, details = text.split(";")[0].partition(":")
    if step == "waiting":
        return "waiting for builds"
    size = details.rpartition(", size ")[2] if ", size " in details else ""
    return f"time {step}" if step in MODES else f"{step}, size {size}" if size else step


class _Screen:
    """Shows progress on standard error: a live line on a terminal, plain lines elsewhere; rows as
    JSON if asked. Standard output is for these alone: what a problem file prints is shown too."""

    def __init__(self, *, json_rows: bool) -> None:
        self._json = json_rows
        self._console = _console(sys.stderr)
        self._where = ""
        self._last = ""
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal or (json_rows and sys.stdout.isatty()),
        )
        self._task = self._progress.add_task("starting", total=None)
        self._open = contextlib.ExitStack()

    def __enter__(self) -> _Screen:
        self._out = sys.stdout  # beneath a live line, rich puts the terminal in its place
        self._open.enter_context(_warnings_to(self.warn))
        self._open.enter_context(contextlib.redirect_stdout(sys.stderr))
        self._open.enter_context(self._progress)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def begin(self, problem: str, solution: str, size: str) -> None:
        self._where = f"{problem} / {solution}" + (f" ({size})" if size else "")
        self.note("start")

    def note(self, text: str) -> None:
        where = f"{self._where}: " if self._where else ""
        self._progress.update(self._task, description=_printable(f"{where}{text}"))
        step = _step(text)
        if not self._console.is_terminal and step != self._last:
            self._line(f"{where}{step}")
        self._last = step

    def row(self, row: Row) -> None:
        if self._json:
            from harness import report

            _write(json.dumps(report.plain_rows([row])[0]) + "\n", self._out)
        self._where = ""
        seconds = f" in {row.total_s:.1f} s" if row.total_s is not None else ""
        self._line(f"{row.problem} / {row.solution}: {row.verdict.status.value}{seconds}")

    def warn(self, text: str) -> None:
        self._line(f"warning: {text}")

    def _line(self, text: str) -> None:
        self._console.print(_printable(text), markup=False, highlight=False, soft_wrap=True)


def _printable(text: str) -> str:
    """One line without what a terminal would obey: names of files are anybody's."""
    return "".join(c if c.isprintable() else " " for c in text)


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "evaluate": _evaluate,
    **{name: _shown(name) for name in OTHERS},
}
