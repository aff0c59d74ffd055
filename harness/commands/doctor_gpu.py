"""How an NVIDIA card stands: driver, clocks, other processes. NVML is optional."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from harness.commands.findings import Finding, State, finding
from harness.judge.device import Device
from harness.nvml import slowed


def look(device: Device) -> list[Finding]:
    """What NVML says of the card; where there is none, that."""
    blind = "throttling and other processes go unseen"
    try:
        import pynvml as nvml
    except ImportError:
        detail = f"not installed: {blind}"
        return [finding("NVML", State.WARNING, detail, "pip install nvidia-ml-py")]
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return [finding("NVML", State.WARNING, f"{error}: {blind}", "nvidia-smi tells more")]
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{device.uuid}")
        return [one for part in (_driver, _clocks, _processes) for one in _told(part, nvml, handle)]
    except nvml.NVMLError as error:
        detail = f"does not know this card ({error}): {blind}"
        return [finding("NVML", State.WARNING, detail, "nvidia-smi -L lists what it knows")]
    finally:
        nvml.nvmlShutdown()


def _told(part: Any, nvml: Any, handle: Any) -> list[Finding]:
    try:
        return list(part(nvml, handle))
    except nvml.NVMLError as error:  # each call is optional: MIG slices lack some
        return [finding(part.__name__.strip("_"), State.OK, f"not told by NVML ({error})")]


def _driver(nvml: Any, handle: Any) -> Iterator[Finding]:
    version = nvml.nvmlSystemGetDriverVersion()
    yield finding("driver", State.OK, version.decode() if isinstance(version, bytes) else version)


def _clocks(nvml: Any, handle: Any) -> Iterator[Finding]:
    now = nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)
    most = nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)
    throttled = slowed(nvml, handle)
    detail = f"SM at {now} of {most} MHz"
    if throttled:
        remedy = "let the card cool; nvidia-smi -q -d PERFORMANCE tells more"
        yield finding("clocks", State.WARNING, f"{detail}, throttled ({throttled:#x})", remedy)
    else:
        yield finding("clocks", State.OK, detail)


def _processes(nvml: Any, handle: Any) -> Iterator[Finding]:
    running = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    others = sorted({process.pid for process in running} - {os.getpid()})
    if others:
        listed = ", ".join(map(str, others[:8])) + (", ..." if len(others) > 8 else "")
        detail = f"{len(others)} on the card: {listed}"
        remedy = "end them, or use another card: nvidia-smi"
        yield finding("other processes", State.WARNING, detail, remedy)
    else:
        yield finding("other processes", State.OK, "none on the card")
