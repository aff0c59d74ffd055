"""The arguments of commands: a wrong one is one line, like every other error."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NoReturn

from harness import ROOT
from harness.errors import RequestError


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise RequestError(f"{message} ({self.prog} --help tells what there is)")


def parser_of(command: str, description: str, **options: Any) -> argparse.ArgumentParser:
    """The parser of a command's arguments. It raises `RequestError` where they are wrong."""
    prog = f"run_eval.py {command}".strip()
    return _Parser(prog=prog, description=description, **options)


def add_places(parser: argparse.ArgumentParser, *, solutions: bool = True) -> None:
    """Where problem and solution files are."""
    parser.add_argument("--problem-dir", type=Path, default=ROOT / "problems")
    if solutions:
        parser.add_argument("--solution-dir", type=Path, default=ROOT / "solutions")
