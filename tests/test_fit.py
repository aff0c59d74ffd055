"""`--size fit`: small enough, and no smaller than that."""

from __future__ import annotations

import re

import pytest
import torch

from harness import fit
from harness.errors import ProblemError

SOURCE = """
import torch

ROWS = {rows}
COLUMNS = 1 << 20


class Model(torch.nn.Module):
    def forward(self, x):
        return {forward}


def get_inputs():
    return [{inputs}]
"""
MIB = 1 << 20


def fitted(
    *,
    bytes: float = 1e15,
    seconds: float = 1e9,
    rows: str = "1 << 20",
    forward: str = "x * 2",
    inputs: str = "torch.rand(ROWS, COLUMNS)",
) -> str:
    source = SOURCE.format(rows=rows, forward=forward, inputs=inputs)
    budget = fit.Cost(bytes=bytes, forward_s=seconds)
    cpu = torch.device("cpu")
    return fit.fitted(source, "x.py", dtype=torch.float32, device=cpu, budget=budget)


def test_what_fits_stays_as_written_and_nothing_is_allocated() -> None:
    assert fitted() == "full"  # 4 TiB of inputs


@pytest.mark.parametrize("mib", [64, 100, 1000, 5000])
def test_the_leading_dimension_is_halved_and_no_more_often_than_needed(mib: int) -> None:
    size = fitted(bytes=mib * MIB)
    rows = int(re.fullmatch(r"ROWS=(\d+)", size)[1])  # type: ignore[index]
    taken = 4 * rows * 3.5  # MiB: inputs and their gradients, the output and half of it
    assert mib / 2 < taken <= mib


def test_the_next_constant_follows_where_the_first_is_not_enough() -> None:
    assert re.fullmatch(r"ROWS=2,COLUMNS=\d+", fitted(bytes=1 * MIB))


def test_a_cpu_has_a_limit_in_time_as_well() -> None:
    rows = int(re.fullmatch(r"ROWS=(\d+)", fitted(seconds=0.05))[1])  # type: ignore[index]
    assert 0.02 < rows * 2 * 4 * MIB / fit.BYTES_PER_S <= 0.05


def test_a_constant_that_the_model_needs_as_it_is_stays_as_it_is() -> None:
    forward = "x[:, (1 << 20) - 1] + x[:, 0]"
    assert re.fullmatch(r"ROWS=\d+", fitted(bytes=64 * MIB, forward=forward))
    assert re.fullmatch(r"COLUMNS=\d+", fitted(bytes=4 * MIB, rows="2"))
    with pytest.raises(ProblemError, match="halving ROWS, COLUMNS does not"):
        fitted(bytes=4 * MIB, forward=forward)


def test_too_slow_at_any_size_is_as_small_as_it_runs() -> None:
    forward = "[x := x * 2 for _ in range(2500)][-1]"
    assert fitted(seconds=0.001, forward=forward, rows="64").startswith("ROWS=2")


def test_what_meta_does_not_run_is_tried_for_real_from_the_smallest_up() -> None:
    forward = "x * (2 if float(x.sum()) > 0 else 1)"
    inputs = "torch.rand(ROWS, 1024)"
    assert fitted(forward=forward, inputs=inputs, rows="64") == "full"
    rows = fitted(bytes=MIB, forward=forward, inputs=inputs, rows="1 << 30")
    assert re.fullmatch(r"ROWS=\d{2,3}", rows)


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ("torch.rand(1 << 30, 1 << 10)", "does not fit .* get_inputs reads no constant"),
        ("torch.rand(ROWS, 1 << 40)", "does not fit .* halving ROWS does not mend it"),
        ("torch.rand(ROWS) @ missing", "NameError"),
    ],
)
def test_what_cannot_be_mended_is_the_problems_own_fault(inputs: str, reason: str) -> None:
    with pytest.raises(ProblemError, match=reason):
        fitted(bytes=MIB, inputs=inputs)


def test_operations_over_the_limit_are_not_counted_on() -> None:
    source = SOURCE.format(
        rows=4, forward="[x := x + 1 for _ in range(2500)][-1]", inputs="torch.rand(ROWS)"
    )
    from harness.shared.problem import Instance

    made = Instance(source=source, path="x", size="full", dtype=torch.float32, device=fit.META)
    assert fit.counted(made).forward_s == float("inf")
