"""NVML: what it takes is given back, and what it does not know is nobody's error."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from harness import nvml

CAPPED, HOT = 4, 32


class Library(SimpleNamespace):
    """A stand-in for pynvml that knows one card. `open`: how often it was opened and not closed."""

    nvmlClocksThrottleReasonHwSlowdown = 8
    nvmlClocksThrottleReasonHwThermalSlowdown = 64
    nvmlClocksThrottleReasonSwThermalSlowdown = HOT
    nvmlClocksThrottleReasonHwPowerBrakeSlowdown = 128
    open: int = 0
    broken: bool = False
    reasons: int = 0

    def nvmlInit(self) -> None:
        if self.broken:
            raise OSError("no driver")
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        return {"GPU-known": 0}[uuid]  # a handle that is false is a handle

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:
        return self.reasons


@pytest.fixture
def pynvml(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setitem(sys.modules, "pynvml", made)
    return made


def test_a_card_is_open_in_its_block_and_closed_after_it_whatever_happens(pynvml: Library) -> None:
    with nvml.card("known") as found:
        assert found == (pynvml, 0)
        assert pynvml.open == 1
    assert pynvml.open == 0
    with pytest.raises(KeyError, match="mine"), nvml.card("known"):
        raise KeyError("mine")
    assert pynvml.open == 0


@pytest.mark.parametrize("uuid", ["other", None])
def test_a_card_that_it_does_not_know_is_none(pynvml: Library, uuid: str | None) -> None:
    with nvml.card(uuid) as found:
        assert found is None
    assert pynvml.open == 0


def test_without_a_driver_or_the_package_there_is_none(
    pynvml: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    pynvml.broken = True
    with nvml.library() as found, nvml.card("known") as card:
        assert (found, card) == (None, None)
    assert pynvml.open == 0  # what was not opened is not closed: others may have it open
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with nvml.library() as found:
        assert found is None


@pytest.mark.parametrize(("reasons", "slowed"), [(0, 0), (CAPPED, 0), (CAPPED | HOT, HOT), (8, 8)])
def test_a_power_limit_alone_slows_nobody_unexpectedly(
    pynvml: Any, reasons: int, slowed: int
) -> None:
    pynvml.reasons = reasons
    assert nvml.slowed(pynvml, 0) == slowed


class Sampled:
    """Another that tells a share for each period; `ended` of them have."""

    NVML_GPU_UTILIZATION_SAMPLES = 1
    ended = 3

    class NVMLError(Exception):
        pass

    def nvmlDeviceGetSamples(self, handle: int, kind: int, last_us: int) -> tuple[int, list[Any]]:
        found = [
            SimpleNamespace(timeStamp=200_000 * n, sampleValue=SimpleNamespace(uiVal=10 * n))
            for n in range(1, self.ended + 1)
            if 200_000 * n >= last_us
        ]
        if not found:
            raise self.NVMLError
        return 1, found


def test_each_sample_of_how_busy_the_card_was_is_told_once() -> None:
    card = Sampled()
    shares = nvml.BusyShares(card, 0)
    assert shares.new() == [0.1, 0.2, 0.3]
    assert shares.new() == []
    card.ended = 5
    assert shares.new() == [0.4, 0.5]
    card.ended = 0
    assert shares.new() == [], "not told"
