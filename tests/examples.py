"""Rows and sources that several tests use."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from harness import results
from harness.records import (
    COLUMNS,
    MODES,
    Environment,
    ModeResult,
    Phase,
    Row,
    Status,
    Verdict,
)

ATTACKS = (
    "<script>window.hit = 1</script>",
    "<img src=x onerror='window.hit = 1'>",
    "</pre></details><svg onload=window.hit=1>",
    '" onmouseover="window.hit=1" x="',
    "' autofocus onfocus='window.hit=1",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:window.hit=1",
    "</script><script>window.hit=1</script>",
    "</style><script>window.hit=1</script>",
    "a | b\n\n<b>c</b> [x](javascript:window.hit=1) `d",
)
REFERENCE = """\
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.rand(4)]
def get_init_inputs():
    return []
"""
SOLUTION = REFERENCE.split("def get")[0].replace("Model", "ModelNew", 1)


def mode(speedup: float, limit: float = 0.5) -> ModeResult:
    return ModeResult(
        reference_ms=6.0,
        solution_ms=6.0 / speedup,
        speedup=speedup,
        low=speedup * 0.99,
        high=speedup * 1.01,
        limit_fraction=limit,
        reference_limit_fraction=limit / speedup,
        least_bytes=2 << 30,
        least_flops=0,
        bound="memory",
    )


def make(
    solution: str = "cuda",
    speedup: float = 2.0,
    status: Status = Status.PASS,
    *,
    problem: str = "kl_div",
    device: str = "NVIDIA H100 80GB HBM3",
    message: str = "",
    **changes: Any,
) -> Row:
    row = Row(
        run_id="r1",
        time="2026-01-02T03:04:05Z",
        problem=problem,
        problem_digest="p" * 16,
        solution=solution,
        solution_digest="s" * 16,
        size="full",
        dtype="float32",
        settings_digest="c" * 12,
        harness_version="0.1.0",
        schema_version=results.SCHEMA_VERSION,
        environment=Environment(device_name=device, torch="2", python="3", host="h", cpu_threads=4),
        verdict=Verdict(status=status, phase=Phase.DONE, message=message),
        modes=dict.fromkeys(MODES, mode(speedup)) if status is Status.PASS else {},
    )
    return dataclasses.replace(row, **changes)


def write(folder: Path, rows: dict[str, list[Row]]) -> list[Path]:
    for name, of_one in rows.items():
        for row in of_one:
            results.append(folder / f"{name}.csv", row)
    return [folder / f"{name}.csv" for name in rows]


def row(problem: str, status: str = "pass", speedup: float | None = None, **more: Any) -> Any:
    values: dict[str, Any] = dict.fromkeys(COLUMNS)
    values |= {"device_name": "GPU", "dtype": "float32", "solution": "sample_0", "flags": ""}
    values |= {"problem": problem, "status": status}
    if speedup is not None:
        values |= {"forward_speedup": speedup, "forward_reference_ms": speedup}
        values |= {"forward_solution_ms": 1.0, "forward_compiled_speedup": 2.0}
        values |= {"forward_compile_speedup": speedup / 2}
    return values | more
