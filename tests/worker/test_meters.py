"""The gate's length follows what enqueueing takes. No time is asserted."""

from __future__ import annotations

import pytest

from harness.worker.meters import GATE_UNITS, MAX_GATE_S, Gate, GateOpened, HostBound


def held(gate: Gate, enqueue_s: float) -> bool:
    """Tell the gate of one unit; whether it was long enough."""
    held = enqueue_s < gate.seconds
    try:
        gate.settle(enqueue_s, held=held, who="side")
    except GateOpened:
        return False
    return held


def test_a_gate_grows_until_it_holds_a_unit() -> None:
    gate = Gate()
    tries = [held(gate, 5e-3) for _ in range(3)]
    assert not tries[0]
    assert tries[-1]


def test_a_slow_first_call_does_not_hold_back_all_that_follow() -> None:
    gate = Gate()
    assert not held(gate, 12e-3)
    assert gate.seconds > 12e-3
    assert all(held(gate, 1e-4) for _ in range(2 * GATE_UNITS))
    assert 1e-4 < gate.seconds < 1e-3


def test_a_gate_stays_long_where_one_side_needs_it() -> None:
    gate = Gate()
    held(gate, 2e-3)
    assert all(held(gate, 1e-4 if number % 2 else 2e-3) for number in range(4 * GATE_UNITS))


def test_who_outlasts_every_gate_is_bound_by_the_host() -> None:
    gate = Gate()
    while gate.seconds < MAX_GATE_S:
        assert not held(gate, 1.5 * MAX_GATE_S)
    with pytest.raises(HostBound, match=r"side needs 30\.0 ms of the host"):
        held(gate, 1.5 * MAX_GATE_S)
