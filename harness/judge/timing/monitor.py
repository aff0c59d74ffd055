"""What else the card was doing while a block was timed: throttling, other processes.

A thread of the judge's reads NVML while the worker measures. Blocks say when they ran on the
machine's monotonic clock; a block during which the card was throttled, or another process
computed on it, is dropped whole. Without NVML nothing is known, and nothing is dropped.

A power cap is not dropped: a kernel that draws the card's whole power causes it itself.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass
from typing import Any

import psutil

from harness import nvml
from harness.judge.device import Device

PERIOD_S = 0.05
THROTTLED = "throttled"
CONTENDED = "contended"
POWER_CAPPED = "power_capped"
#: Flags whose blocks are dropped; the others are only told.
DROPPED = (THROTTLED, CONTENDED)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One look at the card, at `at_ns` of the monotonic clock."""

    at_ns: int
    flags: frozenset[str]


class Monitor:
    """Reads the card's state while in its `with` block. Does nothing for a CPU."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._readings: list[Reading] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Monitor:
        if self._device.type == "cuda":
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def during(self, start_ns: int, end_ns: int) -> frozenset[str]:
        """Flags of the readings in a span, one period wider on both sides."""
        slack = int(PERIOD_S * 1e9)
        inside = (
            r.flags for r in list(self._readings) if start_ns - slack <= r.at_ns <= end_ns + slack
        )
        return frozenset().union(*inside)

    def _watch(self) -> None:
        with contextlib.suppress(Exception), nvml.card(self._device.uuid) as card:
            while card is not None and not self._stop.wait(PERIOD_S):
                flags = _clock_flags(*card) | _neighbours(*card)
                self._readings.append(Reading(at_ns=time.monotonic_ns(), flags=frozenset(flags)))


def _clock_flags(library: Any, handle: Any) -> set[str]:
    """Why the clocks are lower than they could be."""
    flags = {THROTTLED} if nvml.slowed(library, handle) else set()
    reasons = library.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    if reasons & library.nvmlClocksThrottleReasonSwPowerCap:
        flags.add(POWER_CAPPED)
    return flags


def _neighbours(library: Any, handle: Any) -> set[str]:
    """Whether a process that is not of this judge's tree used the card in the last second.

    A process that has ended meanwhile, such as the worker before, does not count; nor can one
    that this machine does not show, in another container.
    """
    own = {os.getpid()} | {p.pid for p in psutil.Process().children(recursive=True)}
    since = int((time.time() - 1.0) * 1e6)
    try:
        samples = library.nvmlDeviceGetProcessUtilization(handle, since)
    except library.NVMLError:  # none in the last second, or not supported
        return set()
    busy = {s.pid for s in samples if s.smUtil > 0 and psutil.pid_exists(s.pid)}
    return {CONTENDED} if busy - own else set()
