"""What is shown on standard output and standard error, and how: the only place that prints."""

from __future__ import annotations

import codecs
import contextlib
import io
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, TextIO, cast

from rich.console import Console, RenderableType
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from harness.errors import MachineError
from harness.records import MODES, Row


class ReaderGone(Exception):
    """Whoever read the output has closed it (`| head`)."""


def open_streams() -> None:
    """Make sure that there is a standard output and error; what their encoding lacks is spelled
    out."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by who started this
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="harness.plain")


def show(shown: RenderableType) -> None:
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


def say(text: str) -> None:
    """A line on standard output."""
    _write(f"{text}\n", sys.stdout)


def tell(text: str) -> None:
    """A line on standard error."""
    _write(f"{text}\n", sys.stderr)


def _write(text: str, stream: TextIO) -> None:
    """Raises `ReaderGone`, or `MachineError` where standard output is a file that is full."""
    try:
        print(text, end="", file=stream, flush=True)
    except OSError as error:
        with Path(os.devnull).open("w") as nowhere:  # what Python writes at its end goes there
            os.dup2(nowhere.fileno(), stream.fileno())
        if isinstance(error, BrokenPipeError) or stream is sys.stderr:
            raise ReaderGone from None
        raise MachineError(f"cannot write to standard output: {error.strerror}") from None


def _plain(error: UnicodeError) -> tuple[str, int]:
    """What a stream's encoding lacks, in ASCII."""
    from harness.report import tables

    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end].translate(tables.ASCII)
    return text.encode("ascii", "backslashreplace").decode(), error.end


codecs.register_error("harness.plain", _plain)


class _Warnings(logging.Handler):
    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        self._show(record.getMessage())


@contextlib.contextmanager
def warnings_to(show: Callable[[str], None]) -> Iterator[None]:
    """What the harness logs meanwhile is given to `show`."""
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


class Screen:
    """Shows progress on standard error: a live line on a terminal, plain lines elsewhere; rows as
    JSON if asked. Standard output is for rows alone: what a problem file prints goes beside it."""

    def __init__(self, *, json_rows: bool) -> None:
        self._json = json_rows
        self._console = _console(sys.stderr)
        self._where = ""
        self._count = ""
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

    def __enter__(self) -> Screen:
        self._out = sys.stdout  # beneath a live line, rich puts the terminal in its place
        self._open.enter_context(warnings_to(self.warn))
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
        count = f"{self._count}; " if self._count else ""
        self._progress.update(self._task, description=_printable(f"{count}{where}{text}"))
        step = _step(text)
        if not self._console.is_terminal and step != self._last:
            self._line(f"{where}{step}")
        self._last = step

    def progress(self, done: int, total: int) -> None:
        self._count = f"{done} of {total}" if total > 1 else ""
        self._progress.update(self._task, description=self._count)

    def row(self, row: Row) -> None:
        if self._json:
            from harness.report import tables

            _write(json.dumps(tables.plain_rows([row])[0]) + "\n", self._out)
        self._where = ""
        seconds = f" in {row.total_s:.1f} s" if row.total_s is not None else ""
        count = f" ({self._count})" if self._count else ""
        self._line(f"{row.problem} / {row.solution}: {row.verdict.status.value}{seconds}{count}")

    def warn(self, text: str) -> None:
        self._line(f"warning: {text}")

    def _line(self, text: str) -> None:
        self._console.print(_printable(text), markup=False, highlight=False, soft_wrap=True)


def _printable(text: str) -> str:
    """One line without what a terminal would obey: names of files are anybody's."""
    return "".join(c if c.isprintable() else " " for c in text)
