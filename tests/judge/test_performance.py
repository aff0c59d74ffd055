"""What is asked about a claim of speed, and when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.judge import performance
from harness.judge.audit import Claim
from harness.judge.timing.baseline import EAGER, Baseline
from harness.records import Block, Epoch, Timing


def timing(ratio: float, stopwatch_ms: float) -> Timing:
    """One that claims `ratio` over a reference of 10 us a call."""
    block = Block(reference_ms=(0.01,) * 2, solution_ms=(0.01 / ratio,) * 2)
    epochs = (Epoch(blocks=(block,) * 3),) * 3
    return Timing(mode="forward", calls=10, epochs=epochs, stopwatch_ms=stopwatch_ms)


@pytest.mark.parametrize(
    ("stopwatch_ms", "quick", "asked"),
    [
        (0.12, False, True),  # the clock is blind: it could be anything
        (0.12, True, False),
        (0.30, False, True),  # the clock speaks against it
        (0.30, True, True),
    ],
)
def test_a_quick_look_asks_the_device_only_where_the_clock_speaks_against_a_claim(
    stopwatch_ms: float, quick: bool, asked: bool
) -> None:
    known = Baseline(timings={(EAGER, "forward"): timing(1.0, 0.12)})
    device: Any = SimpleNamespace(type="cuda")
    case: Any = SimpleNamespace(context=SimpleNamespace(settings=SimpleNamespace(quick=quick)))
    claim = Claim(timing=timing(3.0, stopwatch_ms), baseline=known, device=device)
    assert performance._asks(case, claim) is asked
