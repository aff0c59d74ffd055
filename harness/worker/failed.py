"""Builds that have failed in this run, with what the compiler said.

A solution that swallows a failure is executed all the same: ahead, and again for its evaluation,
where a GPU would wait for the compiler to fail a second time. For another run nothing is kept: what
the compiler lacked may be there by then.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from harness.worker.faults import CompileFault


def keep(file: Path, run: str, fault: CompileFault) -> None:
    """Note a failure; a cache that cannot be written keeps nothing."""
    content = {"run": run, "message": str(fault), "log": fault.log}
    with contextlib.suppress(OSError):
        file.write_text(json.dumps(content), encoding="utf-8")


def recall(file: Path, run: str) -> CompileFault | None:
    """The failure that this run has noted there, whole, if any."""
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
        if known["run"] == run:
            return CompileFault(known["message"], known["log"])
    except (OSError, ValueError, LookupError, TypeError):
        pass
    return None
