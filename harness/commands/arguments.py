"""The arguments of commands: a wrong one is one line, like every other error."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NoReturn

from harness import ROOT
from harness.errors import RequestError


class Once(argparse.Action):
    """Stores a name, and refuses a second one: who gives two means both, and one would be lost."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if getattr(namespace, self.dest) is not None:
            parser.error(f"{option_string} is given twice: it takes one name")
        setattr(namespace, self.dest, values)


def _path(text: str) -> Path:
    """A path of something that is there, or could be."""
    path = Path(text)
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:  # too long, in a folder that may not be entered
        reason = getattr(error, "strerror", None) or error
        raise argparse.ArgumentTypeError(f"{text!r} cannot be used: {reason}") from None
    return path


class _Parser(argparse.ArgumentParser):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.register("type", Path, _path)

    def error(self, message: str) -> NoReturn:
        raise RequestError(f"{message} ({self.prog} --help tells what there is)")


def parser_of(command: str, description: str, **options: Any) -> argparse.ArgumentParser:
    """The parser of a command's arguments. It raises `RequestError` where they are wrong."""
    prog = f"run_eval.py {command}".strip()
    return _Parser(prog=prog, description=description, **options)


def add_places(parser: argparse._ActionsContainer, *, solutions: bool = True) -> None:
    """Where problem and solution files are."""
    kinds = ("problem", "solution") if solutions else ("problem",)
    for kind in kinds:
        parser.add_argument(
            f"--{kind}-dir",
            type=Path,
            default=ROOT / f"{kind}s",
            metavar="DIR",
            help=f"folder of {kind} files; default: {kind}s/",
        )


def add_files(parser: argparse.ArgumentParser, nargs: str = "+", note: str = "") -> None:
    """Results files."""
    text = f"results files{note}"
    parser.add_argument("files", type=Path, nargs=nargs, metavar="FILE.csv", help=text)


def add_filter(parser: argparse.ArgumentParser) -> None:
    """Which rows of results files count."""
    for name in ("problem", "dtype"):
        text = f"rows of this {name} alone, or of several: A,B"
        parser.add_argument(f"--{name}", metavar="NAME", help=text)


def filter_of(options: argparse.Namespace) -> dict[str, list[str]]:
    """Column -> the values that were asked for."""
    asked = {name: getattr(options, name) for name in ("problem", "dtype")}
    return {name: text.split(",") for name, text in asked.items() if text is not None}
