"""What went wrong while a solution ran, as an answer for the judge.

The one place where an exception of the solution becomes data. The judge maps `kind` and the
phase to a verdict; it never decides by words in a message, but for one that PyTorch gives no type
(`no_cpu_memory`).
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import torch

from harness.errors import ProblemError, no_cpu_memory
from harness.shared.binding import NoBackward
from harness.shared.encoding import CannotTravel

MAX_TRACEBACK = 200_000  # characters kept of a traceback or compiler log


class Fault(Exception):
    """A failure with a kind that the judge knows."""

    kind = "exception"


class ContractFault(Fault):
    """The solution does not keep the file format's contract."""

    kind = "contract"


class CompileFault(Fault):
    """A build failed. `log` is the compiler's whole output."""

    kind = "compile"

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class KilledFault(CompileFault):
    """The compiler was killed: with more memory, the same build may succeed."""

    kind = "compiler_killed"


class MachineFault(Fault):
    """The machine, not the solution, is at fault."""

    kind = "machine"


def describe(error: BaseException, *, file: Path | None = None) -> dict[str, Any]:
    """`error` as JSON: kind, one-line message with the line of the solution's `file`, full text."""
    if isinstance(error, Fault):
        kind = error.kind
    elif isinstance(error, CannotTravel):
        kind = "contract"
    elif isinstance(error, ProblemError):
        kind = "problem"
    elif isinstance(error, NoBackward):
        kind = "no_backward"
    elif isinstance(error, torch.OutOfMemoryError | MemoryError) or no_cpu_memory(error):
        kind = "out_of_memory"
    else:
        kind = "exception"
    told = traceback.TracebackException.from_exception(error)  # also where str(error) raises
    text = "".join(told.format())
    if isinstance(error, CompileFault):
        text = error.log + "\n" + text
    lines = str(told).strip().splitlines()
    speaks = isinstance(error, Fault | ProblemError | NoBackward | CannotTravel)
    said = ["" if speaks else type(error).__name__, *lines[:1]]
    own = [frame.lineno for frame in told.stack if frame.filename == str(file) and not speaks]
    place = f" ({file.name}:{own[-1]})" if file and own else ""
    return {
        "kind": kind,
        "message": ": ".join(filter(None, said))[:2000] + place,
        "text": text[-MAX_TRACEBACK:],
    }
