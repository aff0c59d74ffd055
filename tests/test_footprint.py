"""The memory of a reference, worked out without data, and the size that fits a device by it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from support import TINY, Bench

from harness import footprint, run
from harness.config import Settings
from harness.judge import device
from harness.records import Problem
from harness.shared.problem import FULL

ROOT = Path(__file__).resolve().parent.parent
GIB = 2**30


def peak(source: str, size: str = FULL, dtype: torch.dtype = torch.float32) -> int | None:
    return footprint.peak_bytes(source=source, path="p.py", size=size, dtype=dtype)


def returns(expression: str) -> str:
    """A problem over x and y of 2 MiB each."""
    source = TINY.replace("ROWS = 8", "ROWS = 8192")
    return source.replace("return ((x - y) ** 2).mean(dim=1)", f"return {expression}")


MIB = 2**20


@pytest.mark.parametrize(
    ("expression", "expected_mib"),
    [
        ("(x + y).sum()", 6),  # x, y, their sum: let go before gradients that are views of one
        ("x * y", 12),  # inputs, output, its gradient, two gradients
        ("torch.exp(x) * y", 16),  # exp(x) is kept, and is what is multiplied once more
        ("x.detach() * y.detach()", 6),  # no backward
        ("x.t()", 6),  # a view, and the gradient of one
    ],
)
def test_the_peak_is_what_is_held_at_once(expression: str, expected_mib: int) -> None:
    found = peak(returns(expression))
    assert found is not None
    assert expected_mib <= found / MIB < expected_mib + 1


def test_memory_that_is_used_in_turn_counts_once() -> None:
    chained = "(((x.detach() + 1) + 1) + 1) + y.detach()"
    found = peak(returns(chained))
    assert found is not None
    assert found / MIB == pytest.approx(8, abs=0.1)  # inputs, and two links of the chain


def test_weights_count_and_half_precision_is_half() -> None:
    source = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1024, 1024)

    def forward(self, x):
        return self.linear(x)

def get_inputs():
    return [torch.randn(8, 1024)]
"""
    full, half = peak(source), peak(source, dtype=torch.bfloat16)
    assert full is not None
    assert half is not None
    assert 8 * MIB < full < 9 * MIB  # weights and their gradient
    assert half >= 4 * MIB
    assert peak(source.replace("return self.linear(x)", "return x + 1")) < full  # type: ignore[operator]


def test_what_cannot_run_without_data_is_not_known() -> None:
    assert peak(returns("x if x.sum() > 0 else y")) is None
    assert peak("not a problem") is None


def test_eager_mse_needs_what_was_measured() -> None:
    """28 GiB of training memory on a GPU: seven tensors of 4 GiB."""
    assert peak((ROOT / "problems" / "mse.py").read_text()) == pytest.approx(28 * GIB, rel=1e-3)


# --- auto ---------------------------------------------------------------------------------------


def auto(bench: Bench, problem: Problem, memory_bytes: int, kind: str = "cuda") -> str:
    context = bench.context()
    given = dataclasses.replace(device.choose("cpu"), type=kind, memory_bytes=memory_bytes)
    context = dataclasses.replace(context, device=given)
    return run.size_of(Settings(size="auto"), context, run.Job(problem=problem))


@pytest.mark.parametrize(
    ("memory_gib", "expected"), [(80, "full"), (64, "full"), (24, "medium"), (8, "smoke")]
)
def test_auto_is_the_largest_size_that_fits_a_gpu(
    bench: Bench, memory_gib: int, expected: str
) -> None:
    problem = bench.problem((ROOT / "problems" / "mse.py").read_text(), "mse")
    assert auto(bench, problem, memory_gib * GIB) == expected


def test_auto_is_smoke_on_a_cpu_whatever_fits_and_never_a_size_for_checks(bench: Bench) -> None:
    source = returns("x * y") + "\nSIZES = {'odd': {'ROWS': 4}, 'huge': {'ROWS': 99999}"
    problem = bench.problem(source + "}\n")
    assert auto(bench, problem, GIB, "cpu") == FULL
    assert auto(bench, problem, GIB) == FULL
    assert auto(bench, problem, MIB) == FULL  # the smallest, if nothing fits
    problem = bench.problem(source + ", 'smoke': {'ROWS': 8}}\n")
    assert auto(bench, problem, GIB, "cpu") == "smoke"
    assert auto(bench, problem, GIB) == FULL
    assert auto(bench, problem, MIB) == "smoke"


def test_auto_is_full_where_nobody_can_tell(bench: Bench) -> None:
    source = returns("x if x.sum() > 0 else y") + "\nSIZES = {'smoke': {'ROWS': 4}}\n"
    assert auto(bench, bench.problem(source), MIB) == FULL


def test_the_size_is_kept_for_the_same_question(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"sizes": ("full", "smoke"), "dtype": "float32", "limit_bytes": 1e12}
    with mock.patch.object(footprint, "largest_size", return_value="smoke") as largest:
        for _ in range(2):
            assert footprint.kept_largest_size(tmp_path, "one", "a.py", **asked) == "smoke"
        assert largest.call_count == 1
        footprint.kept_largest_size(tmp_path, "another", "a.py", **asked)
        footprint.kept_largest_size(tmp_path, "one", "a.py", **asked | {"limit_bytes": 2e12})
        assert largest.call_count == 3
        for file in tmp_path.iterdir():
            file.write_text("no size of this problem")
        assert footprint.kept_largest_size(tmp_path, "one", "a.py", **asked) == "smoke"
        assert largest.call_count == 4


def test_where_there_is_one_size_nothing_is_run_to_find_it() -> None:
    asked: dict[str, Any] = {"dtype": "float32", "limit_bytes": 1.0}
    with mock.patch.object(footprint, "peak_bytes", side_effect=AssertionError):
        assert footprint.largest_size(TINY, "p.py", sizes=(FULL,), **asked) == FULL
