"""Evaluation harness for GPU kernels: right, honest, repeatable, fast.

`python run_eval.py --help` is the command line; `Judge`, `evaluate`, `compare`, `read` and `frame`
are the same from Python (docs/python.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.api import Judge, compare, evaluate, frame, read
    from harness.config import Settings

#: The folder that holds this package, and problems, solutions and results beside it.
ROOT = Path(__file__).resolve().parent.parent

__all__ = ["Judge", "Settings", "compare", "evaluate", "frame", "read"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Loaded when it is asked for: a worker imports this package too, and has no use for the
    judge."""
    if name in __all__:
        from harness import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
