"""The judge's clock where it is blind: how long the device was busy decides."""

from __future__ import annotations

import dataclasses

import pytest

from harness.judge import clock
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


# --- values that come for the first time ---------------------------------------------------------

#: A call of 2 ms, which a reading of new values in part shows as 2.2, one of wholly new ones as
#: 2.5, and with the draw as 4.
KNOWN = dataclasses.replace(
    timing(2.0, 2.0, stopwatch_ms=2.2), first_ms=2.5, drawn_ms=4.0, stopwatch_host_ms=0.01
)


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("first_ms", "drawn_ms", "refused"),
    [
        (0.7, 2.2, None),  # eight times as fast, and new values as for the reference
        (2.5, 4.0, "a call took 2.5 ms"),  # as slow as that where nothing was met before
        (0.7, 4.0, "with the draw of its values, took 4 ms"),  # done while they are drawn
    ],
)
def test_new_values_take_a_solution_no_longer_than_the_reference(
    kind: str, first_ms: float, drawn_ms: float, refused: str | None
) -> None:
    found = dataclasses.replace(
        timing(2.0, 0.25, stopwatch_ms=0.4), first_ms=first_ms, drawn_ms=drawn_ms
    )
    text = clock.first_complaint(found, [KNOWN], kind, 0.0)
    assert (refused is None) == (text is None)
    assert refused is None or refused in str(text)
    assert clock.first_complaint(found, [KNOWN], kind, 5.0) is None, "a forward that may be slow"
    assert clock.first_complaint(found, [], kind, 0.0) is None, "nothing to hold it against"
    slower = dataclasses.replace(found, epochs=KNOWN.epochs)
    assert clock.first_complaint(slower, [KNOWN], kind, 0.0) is None, "who claims nothing"


def test_where_the_host_sets_the_pace_of_a_gpus_readings_new_values_are_not_held_against_it() -> (
    None
):
    found = dataclasses.replace(
        timing(2.0, 0.25, stopwatch_ms=3.0), busy_ms=0.3, first_ms=3.3, drawn_ms=4.8
    )
    assert clock.first_complaint(found, [KNOWN], "cuda", 0.0) is None
    assert clock.first_complaint(found, [KNOWN], "cpu", 0.0) is not None
