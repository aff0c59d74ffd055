"""The process that Nsight Compute looks at: repeats a worker's orders, the last one profiled."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from harness.worker.session import ORDERS, begin


def main(path: str) -> None:
    """Do the orders of the file `path`; the profiler is on for one call of the last."""
    first, *orders, last = json.loads(Path(path).read_text(encoding="utf-8"))
    session = begin(first)
    for order in orders:
        ORDERS[order["order"]](session, order)
    side, mode, call = session.call_of(last)
    side.run(mode, call, side.prepare(mode, call))
    prepared = side.prepare(mode, call)
    if not torch.cuda.is_initialized():  # a CPU has no such profiler
        side.run(mode, call, prepared)
        return
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    side.run(mode, call, prepared)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()
