"""Kernels of a trace, and operators of a CPU's call."""

from __future__ import annotations

import torch

from harness.worker import kernels

TRACE = [
    {"cat": "kernel", "name": "mine", "dur": 10.0, "args": {"registers per thread": 32}},
    {"cat": "kernel", "name": "mine", "dur": 30.0, "args": {"registers per thread": 32}},
    {"cat": "gpu_memset", "name": "Memset (Device)", "dur": 1.0, "args": {}},
    {"cat": "cpu_op", "name": "aten::add", "dur": 99.0, "args": {}},
    {"ph": "M", "name": "process_name"},
]


def test_a_trace_gives_kernels_per_call_with_registers_and_no_host_events() -> None:
    found = {k["name"]: k for k in kernels.from_trace(TRACE, calls=2)}
    assert set(found) == {"mine", "Memset (Device)"}
    assert found["mine"]["time_us"] == 20.0
    assert found["mine"]["calls"] == 1.0
    assert found["mine"]["registers"] == 32
    assert found["Memset (Device)"]["registers"] is None


def test_a_cpu_lists_operators_and_what_is_outside_of_them_and_not_the_preparation() -> None:
    def prepare() -> torch.Tensor:
        return torch.full((64, 64), 0.5)

    def run(x: torch.Tensor) -> torch.Tensor:
        return torch.matmul(x, x)

    found = {k["name"]: k for k in kernels.measured(prepare, run, torch.device("cpu"), calls=3)}
    assert found["aten::mm"]["calls"] == 1.0
    assert "aten::full" not in found
    assert kernels.OUTSIDE in found
    assert found["aten::mm"]["time_us"] > 0
