"""A quick look: the forward is judged as ever, nothing is said about the backward."""

from __future__ import annotations

from typing import Any

import pytest
from support import HONEST, TINY, Bench

from harness.config import load
from harness.records import Row, Status

SIZED = TINY + '\n\nSIZES = {"odd": {"ROWS": 3, "COLUMNS": 17}}\n'
#: The forward is right, the gradient is twice what it should be.
WRONG_GRADIENT = HONEST.replace(
    "return ((x - y) ** 2).mean(dim=1)",
    "right = ((x - y) ** 2).mean(dim=1)\n        return right + (right - right.detach())",
)
AT_GRADED_SIZE = HONEST.replace(
    "        return", "        x = x * (1 + (x.shape[0] == 8))\n        return"
)
VIEWS = HONEST.replace(
    "        return", "        x = x if x.is_contiguous() else x * 2\n        return"
)


def judge(bench: Bench, solution: str, problem: str = SIZED, **changes: Any) -> Row:
    preset = load("quick", {})
    quick = {"sandbox": "default", "quick": True, "trials": preset.trials, "modes": preset.modes}
    return bench.judge(solution, problem, **quick, **changes)


@pytest.mark.parametrize("solution", [HONEST, WRONG_GRADIENT])
def test_a_right_forward_is_forward_only_and_fine_whatever_the_backward(
    bench: Bench, solution: str
) -> None:
    row = judge(bench, solution)
    assert row.verdict.status is Status.FORWARD_ONLY, row.verdict
    assert "leaves the backward out" in row.verdict.message
    assert "quick" in row.flags
    assert row.fine
    assert row.flat()["forward_speedup"] is not None
    assert set(row.modes) == {"forward"}


@pytest.mark.parametrize("solution", [AT_GRADED_SIZE, VIEWS, HONEST.replace("mean", "sum")])
def test_a_wrong_forward_is_found_at_either_size_and_by_every_pass(
    bench: Bench, solution: str
) -> None:
    row = judge(bench, solution)
    assert row.verdict.status is Status.WRONG_OUTPUT, row.verdict
    assert not row.fine


def test_a_forward_passes_where_nothing_else_is_asked_for(bench: Bench) -> None:
    row = judge(bench, HONEST, require_backward=False)
    assert row.verdict.status is Status.PASS
    assert "leaves the backward out" in row.verdict.message
    assert "quick" in row.flags


def test_without_the_setting_a_wrong_gradient_is_one_and_no_row_is_quick(bench: Bench) -> None:
    row = bench.judge(WRONG_GRADIENT, SIZED)
    assert row.verdict.status is Status.WRONG_GRADIENT
    assert "quick" not in row.flags
