"""Raw samples (ms), in a file beside the results: what a row's figures can be worked out from."""

from __future__ import annotations

import dataclasses
import gzip
import json
import math
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import files
from harness.errors import MachineError, RequestError
from harness.records import Block, Epoch, Timing

#: What a file that holds something else can raise while it is taken apart.
MALFORMED = (EOFError, ValueError, KeyError, TypeError, AttributeError)


def name_of(run_id: str, problem: str, solution: str) -> str:
    """What the samples of one evaluation are called."""
    return f"{run_id}--{problem}--{solution}"


def file_for(name: str, folder: Path) -> Path:
    """The file of the samples `name` in `folder` (results/raw)."""
    return folder / f"{files.safe_name(name)}.json.gz"


def save(folder: Path, name: str, timings: Mapping[str, Timing]) -> Path:
    """Write every sample to the file of `name` in `folder`, or beside it; never over another.

    Raises `MachineError` where it cannot be written.
    """
    content = {"run_id": name, "timings": {m: dataclasses.asdict(t) for m, t in timings.items()}}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = files.unused(file_for(name, folder))
        files.replace(path, gzip.compress(json.dumps(content).encode(), mtime=0))
    except OSError as error:
        raise MachineError(f"cannot write raw samples to {folder}: {error.strerror}") from None
    return path


def load(path: Path) -> dict[str, Timing]:
    """What `save` wrote. Raises `RequestError` where `path` is no such file."""
    try:
        stored = json.loads(gzip.decompress(path.read_bytes()))["timings"]
        return {mode: timing_of(value) for mode, value in stored.items()}
    except (OSError, zlib.error, *MALFORMED) as error:
        raise RequestError(f"cannot read raw samples from {path}: {error}") from None


def _blocks(stored: list[dict[str, Any]]) -> tuple[Block, ...]:
    return tuple(Block(**{side: _pair(ms) for side, ms in block.items()}) for block in stored)


def _pair(ms: list[float]) -> tuple[float, float]:
    first, second = (float(t) for t in ms)
    if not (0 < first < math.inf and 0 < second < math.inf):
        raise ValueError(f"{ms} are no times")
    return first, second


def timing_of(stored: dict[str, Any]) -> Timing:
    """The timing of which `stored` is `dataclasses.asdict`. Raises one of `MALFORMED`."""
    epochs = tuple(
        Epoch(
            blocks=_blocks(epoch["blocks"]),
            disturbed=_blocks(epoch["disturbed"]),
            wall_s=epoch["wall_s"],
        )
        for epoch in stored["epochs"]
    )
    return Timing(**{**stored, "epochs": epochs, "flags": tuple(stored["flags"])})
