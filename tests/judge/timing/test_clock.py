"""The judge's clock where it is blind: how long the device was busy decides."""

from __future__ import annotations

import dataclasses

import pytest

from harness.judge.timing import clock
from harness.records import Block, Epoch, Timing


def timing(reference_ms: float, solution_ms: float, *, stopwatch_ms: float | None = None) -> Timing:
    block = Block(reference_ms=(reference_ms,) * 2, solution_ms=(solution_ms,) * 2)
    epochs = (Epoch(blocks=(block,) * 3, wall_s=1.0),) * 2
    return Timing(mode="forward", calls=4, epochs=epochs, stopwatch_ms=stopwatch_ms)


#: A call of 0.05 ms. The host orders one, with new values and a sample, in 0.2 ms; of those the
#: device is busy for 0.06.
EAGER = dataclasses.replace(
    timing(0.05, 0.05, stopwatch_ms=0.2), stopwatch_host_ms=0.2, busy_ms=0.06
)
UNTOLD = dataclasses.replace(EAGER, busy_ms=None)
NOT_BLIND = dataclasses.replace(EAGER, stopwatch_ms=0.1, stopwatch_host_ms=0.01)


def claimed(speedup: float, busy_ms: float | None) -> Timing:
    found = timing(0.05, 0.05 / speedup, stopwatch_ms=0.2)
    return dataclasses.replace(found, busy_ms=busy_ms)


@pytest.mark.parametrize("speedup", [2.0, 3.0, 10.0])
def test_what_the_host_hides_shows_on_the_device(speedup: float) -> None:
    honest, bent = claimed(speedup, 0.01 + 0.05 / speedup), claimed(speedup, 0.06)
    assert clock.complaint(honest, [EAGER], "cuda", 0.0) is None
    text = clock.complaint(bent, [EAGER], "cuda", 0.0)
    assert text is not None
    assert f"{speedup:.3g}x is claimed" in text
    assert "busy for 0.06 ms" in text
    assert clock.complaint(bent, [EAGER], "cuda", 0.05) is None, "a forward that may take longer"
    assert clock.complaint(bent, [UNTOLD], "cuda", 0.0) is None, "nothing to hold it against"


@pytest.mark.parametrize("speedup", [0.5, 1.0])
def test_who_does_not_claim_to_be_faster_may_keep_the_device_busy(speedup: float) -> None:
    assert clock.complaint(claimed(speedup, 0.5), [EAGER], "cuda", 0.0) is None


def test_the_device_is_asked_where_it_could_decide() -> None:
    def asks(speedup: float, reading: Timing, stopwatch_ms: float = 0.2) -> bool:
        found = dataclasses.replace(claimed(speedup, None), stopwatch_ms=stopwatch_ms)
        return clock.asks_the_device(found, [reading], "cuda", 0.0)

    assert asks(2.0, EAGER)
    assert not asks(1.2, EAGER), "less than any slack"
    assert not asks(2.0, NOT_BLIND, 0.08), "the clock sees, and has nothing against it"
    assert asks(2.0, NOT_BLIND, 0.3), "the clock speaks against it"
    assert not clock.asks_the_device(claimed(2.0, None), [], "cuda", 0.0)


def test_who_sees_nothing_says_so() -> None:
    assert clock.blind(EAGER, "cuda")
    assert not clock.blind(NOT_BLIND, "cuda")
    assert clock.sees(EAGER, claimed(3.0, 0.03), "cuda")
    assert not clock.sees(UNTOLD, claimed(3.0, 0.03), "cuda")
    assert not clock.sees(EAGER, claimed(3.0, None), "cuda"), "it was not asked, or not told"
    assert clock.sees(EAGER, claimed(1.1, None), "cuda"), "nor need be"
    lost = dataclasses.replace(EAGER, busy_ms=0.3)
    assert not clock.sees(lost, claimed(3.0, 0.3), "cuda"), "the call is lost in the rest"


@pytest.mark.parametrize("stopwatch_ms", [0.10, 0.11, 0.13, 0.139])
def test_on_a_cpu_a_claim_that_holds_by_little_is_close(stopwatch_ms: float) -> None:
    # Of 0.18 ms that a reading of the reference took, 0.08 are claimed to be saved.
    reading = timing(0.1, 0.1, stopwatch_ms=0.18)
    found = timing(0.1, 0.02, stopwatch_ms=stopwatch_ms)
    assert clock.complaint(found, [reading], "cpu", 0.0) is None
    near = stopwatch_ms > 0.10 * (1 + clock.UNASKED_SLACK)
    assert clock.close(found, [reading], "cpu", 0.0) is near
    assert not clock.close(found, [reading], "cuda", 0.0)
    assert not clock.close(found, [], "cpu", 0.0)
    slower = timing(0.1, 0.11, stopwatch_ms=0.25)
    assert not clock.close(slower, [reading], "cpu", 0.0), "who claims nothing needs no more"
    now = timing(0.1, 0.1, stopwatch_ms=0.15)
    text = clock.complaint(found, [now], "cpu", 0.0)
    assert (text is None) is (stopwatch_ms <= 0.07 * (1 + clock.SLACK["cpu"]))
