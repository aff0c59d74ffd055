"""NVIDIA's management library (NVML), where there is one: all that it tells is optional.

A machine without a driver has none, and a container or a part of a card (MIG) is not told all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def library() -> Iterator[Any]:
    """`pynvml`, ready to be asked, or None where it cannot be used. Its calls may still fail."""
    nvml: Any = None
    with contextlib.suppress(Exception):
        import pynvml

        pynvml.nvmlInit()
        nvml = pynvml
    try:
        yield nvml
    finally:
        if nvml is not None:
            nvml.nvmlShutdown()


@contextlib.contextmanager
def card(uuid: str | None) -> Iterator[tuple[Any, Any] | None]:
    """`pynvml` and its handle of the card that CUDA calls `uuid`; None where either is missing."""
    with library() as nvml:
        handle: Any = None
        with contextlib.suppress(Exception):
            handle = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        yield None if handle is None else (nvml, handle)


def slowed(nvml: Any, handle: Any) -> int:
    """Why the card's clocks are held down, but for its power limit; 0: they are not. Constants:
    NVML, clocks event reasons. Raises `NVMLError`."""
    reasons: int = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    unwanted: int = (
        nvml.nvmlClocksThrottleReasonHwSlowdown
        | nvml.nvmlClocksThrottleReasonHwThermalSlowdown
        | nvml.nvmlClocksThrottleReasonSwThermalSlowdown
        | nvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown
    )
    return reasons & unwanted


class BusyShares:
    """Of each of the driver's sample periods (a fifth of a second on an H200), the share during
    which some kernel ran, of whatever process. Source: NVML, `nvmlDeviceGetSamples`."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self._last_us = 0

    def new(self) -> list[float]:
        """Those that have ended since the last call; none where the driver tells nothing."""
        kind = self._nvml.NVML_GPU_UTILIZATION_SAMPLES
        try:
            _, samples = self._nvml.nvmlDeviceGetSamples(self._handle, kind, self._last_us)
        except self._nvml.NVMLError:  # none since, or not supported
            return []
        found = [s for s in samples if s.timeStamp > self._last_us]
        self._last_us = max((s.timeStamp for s in found), default=self._last_us)
        return [s.sampleValue.uiVal / 100 for s in found]
