"""What a call ran, from torch.profiler: kernels on CUDA, operators on a CPU.

Times are per call, of warm calls one after another on the same inputs: they say where time goes,
not how fast a solution is. All of it is a claim.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

#: What a CPU's call spends outside of PyTorch's operators: Python, and native code of its own.
OUTSIDE = "(outside of operators)"
_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")

Kernel = dict[str, Any]  # name, calls, time_us, registers, shared_bytes


def measured(
    prepare: Callable[[], Any], run: Callable[[Any], Any], device: torch.device, calls: int
) -> list[Kernel]:
    """What one `run` ran, longest first. Each is given what a `prepare` just before it returned."""
    run(prepare())
    found = (_cuda if device.type == "cuda" else _cpu)(prepare, run, calls)
    return sorted(found, key=lambda kernel: -kernel["time_us"])


def _cuda(prepare: Callable[[], Any], run: Callable[[Any], Any], calls: int) -> list[Kernel]:
    events: list[dict[str, Any]] = []
    for _ in range(calls):
        prepared = prepare()
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as record:
            run(prepared)
            torch.cuda.synchronize()
        # Registers and shared memory stand in the trace only.
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "trace.json")
            record.export_chrome_trace(str(path))
            text = path.read_text(encoding="utf-8", errors="replace")
            events += json.loads(text)["traceEvents"]
    return from_trace(events, calls)


def from_trace(events: list[dict[str, Any]], calls: int) -> list[Kernel]:
    """The kernels of a trace of `calls` calls; of one name, together."""
    kernels: dict[str, Kernel] = {}
    for event in events:
        if event.get("cat") in _CATEGORIES:
            facts = event.get("args", {})
            kernel = kernels.setdefault(
                event["name"],
                {
                    "name": event["name"],
                    "calls": 0.0,
                    "time_us": 0.0,
                    "registers": facts.get("registers per thread"),
                    "shared_bytes": facts.get("shared memory"),
                },
            )
            kernel["calls"] += 1 / calls
            kernel["time_us"] += event["dur"] / calls
    return list(kernels.values())


def _cpu(prepare: Callable[[], Any], run: Callable[[Any], Any], calls: int) -> list[Kernel]:
    kernels: dict[str, Kernel] = {}
    plain_us = 0.0
    with profile(activities=[ProfilerActivity.CPU]):  # its first use takes long
        run(prepare())
    for _ in range(calls):
        prepared = prepare()
        began = time.perf_counter()
        run(prepared)
        plain_us += (time.perf_counter() - began) / calls * 1e6
        prepared = prepare()
        with profile(activities=[ProfilerActivity.CPU]) as record, record_function(OUTSIDE):
            run(prepared)
        for event in record.key_averages():
            none = {"calls": 0.0, "time_us": 0.0, "registers": None, "shared_bytes": None}
            kernel = kernels.setdefault(event.key, {"name": event.key, **none})
            kernel["calls"] += event.count / calls
            kernel["time_us"] += event.self_cpu_time_total / calls
    # The profiler's own cost lands outside of the operators: what is left of a plain call counts.
    inside_us = sum(k["time_us"] for name, k in kernels.items() if name != OUTSIDE)
    if outside := kernels.get(OUTSIDE):
        outside["time_us"] = min(outside["time_us"], max(0.0, plain_us - inside_us))
    return list(kernels.values())
