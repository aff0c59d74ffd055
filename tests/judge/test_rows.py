"""What a row says of a build, and of a mode beside its limit."""

from __future__ import annotations

import pytest

from harness.judge.rows import Findings, mode_result
from harness.judge.timing.baseline import Baseline
from harness.judge.timing.limit import Step
from harness.meanings import FLAGS
from harness.records import Block, Epoch, Timing


@pytest.mark.parametrize(
    ("used", "flags"),
    [
        (["lean", "lean"], []),
        (["lean", "torch"], ["full_headers"]),
        ([None], []),
        ([], []),
    ],
    ids=str,
)
def test_a_row_says_where_all_of_torchs_headers_were_used(
    used: list[str | None], flags: list[str]
) -> None:
    found = Findings()
    for _ in range(2):  # after the build, and again after the load
        found.note_builds([{"seconds": 1.0, "headers": headers} for headers in used])
    assert found.flags == flags
    assert set(flags) <= set(FLAGS)


def timed(reference_ms: float, solution_ms: float) -> Timing:
    block = Block(reference_ms=(reference_ms,) * 2, solution_ms=(solution_ms,) * 2)
    epochs = (Epoch(blocks=(block, block)),) * 3
    return Timing(mode="backward", calls=1, epochs=epochs)


FORWARD, BACKWARD = Step(read=600, written=400, flops=10), Step(read=1000, written=0, flops=30)


@pytest.mark.parametrize(
    ("flops_per_s", "steps", "limit_ms", "bound"),
    [
        (None, (FORWARD,), 1.0, "memory"),
        (1e5, (FORWARD,), 1.0, "memory"),  # 0.1 ms of arithmetic
        (1e3, (FORWARD,), 10.0, "compute"),
        (1.5e4, (FORWARD, BACKWARD), 1.0 + 2.0, "compute"),  # 1 and 0.67 ms; 1 and 2
    ],
)
def test_a_limit_is_the_sum_over_steps_of_what_takes_longer(
    flops_per_s: float | None, steps: tuple[Step, ...], limit_ms: float, bound: str
) -> None:
    base = Baseline(bandwidth=((0.0, 1e6), (1.0, 1e6)), flops_per_s=flops_per_s)
    found = mode_result(timed(40.0, 20.0), base, steps)
    assert found.speedup == pytest.approx(2.0)
    assert found.limit_fraction == pytest.approx(limit_ms / 20.0)
    assert found.reference_limit_fraction == pytest.approx(limit_ms / 40.0)
    assert found.bound == bound
    assert found.least_bytes == 1000 * len(steps)
    assert found.least_flops == sum(step.flops for step in steps)
    assert (found.compile_speedup, found.compile_low, found.compile_high) == (None, None, None)


def test_without_known_rates_there_is_no_limit_and_beside_compile_a_quotient() -> None:
    base = Baseline(timings={("default", "backward"): timed(40.0, 25.0)})
    found = mode_result(timed(40.0, 20.0), base, (FORWARD,))
    limits = (found.limit_fraction, found.reference_limit_fraction, found.bound)
    assert limits == (None, None, None)
    assert found.compiled_speedup == pytest.approx(1.6)
    assert found.compile_speedup == pytest.approx(1.25)
    assert found.compile_low == pytest.approx(1.25)
    assert found.compile_high == pytest.approx(1.25)
