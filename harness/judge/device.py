"""Which device, and what it is: the environment part of a row."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import platform
import socket
from dataclasses import dataclass
from typing import Any

import torch

from harness import nvml
from harness.errors import MachineError, RequestError
from harness.judge.process import toolchain
from harness.records import Environment
from harness.wording import counted

COMMON_ARCH = "9.0"  # built for where no device says otherwise
#: Libraries compute by these, in the judge's process; a worker's environment has none of them.
OVERRIDES = ("NVIDIA_TF32_OVERRIDE", "ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE")


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device as the judge sees it. `visible` is CUDA_VISIBLE_DEVICES for its workers."""

    type: str
    index: int
    name: str
    visible: str
    arch: str | None
    memory_bytes: int
    uuid: str | None = None
    pin_bandwidth_bytes_per_s: float | None = None

    @property
    def torch(self) -> torch.device:
        """The judge's own handle."""
        return torch.device(self.type, self.index) if self.type == "cuda" else torch.device("cpu")


def choose(setting: str) -> Device:
    """The device that `setting` names: auto, cpu, cuda or cuda:N.

    `auto` takes the CUDA device with the most free memory, else the CPU.
    Raises `RequestError` for a malformed name, `MachineError` for a device that is not there, and
    where the environment says how exactly libraries compute.
    """
    if named := next((name for name in OVERRIDES if os.environ.get(name)), None):
        raise MachineError(
            f"{named} is set: the judge would compute otherwise than its workers do; unset it "
            "(the setting allow_tf32 says whether both may use TF32)"
        )
    if setting == "cpu" or (setting == "auto" and not torch.cuda.is_available()):
        return _cpu()
    if setting not in ("auto", "cuda") and not setting.startswith("cuda:"):
        raise RequestError(f"device {setting!r} is unknown; use auto, cpu, cuda or cuda:N")
    if torch.version.cuda is None and torch.version.hip is None:
        raise MachineError("this torch has no CUDA; install a CUDA build: pip install torch")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        raise MachineError("no CUDA device can be used here; check nvidia-smi, or use --device cpu")
    if ":" in setting:
        number = setting.split(":", 1)[1]
        if not number.isdigit() or int(number) >= count:
            raise MachineError(f"device {setting!r} is not there; this machine has {count}")
        index = int(number)
    else:
        index = max(range(count), key=_free_bytes) if count > 1 else 0
    return _cuda(index)


def builder() -> Device:
    """The CPU, building for the first GPU where there is one, else for `COMMON_ARCH`."""
    arch = COMMON_ARCH
    if torch.cuda.is_available():
        arch = toolchain.architecture(torch.cuda.get_device_capability(0))
    return dataclasses.replace(_cpu(), arch=arch)


def _cpu() -> Device:
    import psutil

    return Device(
        type="cpu",
        index=0,
        name=_cpu_name(),
        visible="",
        arch=None,
        memory_bytes=psutil.virtual_memory().total,
    )


def _cpu_name() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                cores = counted(len(os.sched_getaffinity(0)), "core")
                return f"{line.split(':', 1)[1].strip()} ({cores})"
    return f"{platform.processor() or platform.machine()} CPU"


def _cuda(index: int) -> Device:
    torch.cuda.set_device(index)
    try:
        torch.ones(1, device="cuda")
    except RuntimeError as error:
        line = str(error).splitlines()[0]
        raise MachineError(
            f"cuda:{index} cannot be used: {line}; choose another --device"
        ) from error
    properties = torch.cuda.get_device_properties(index)
    uuid = str(properties.uuid)
    listed = [v for v in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if v]
    return Device(
        type="cuda",
        index=index,
        name=properties.name,
        visible=listed[index] if listed else f"GPU-{uuid}",
        arch=toolchain.architecture((properties.major, properties.minor)),
        memory_bytes=properties.total_memory,
        uuid=uuid,
        pin_bandwidth_bytes_per_s=_pin_bandwidth(uuid),
    )


def _free_bytes(index: int) -> int:
    """By NVML where it tells: to ask CUDA makes a context on the card, and takes memory of it."""
    uuid = str(torch.cuda.get_device_properties(index).uuid)
    with contextlib.suppress(Exception), nvml.card(uuid) as card:
        if card is not None:
            library, handle = card
            return int(library.nvmlDeviceGetMemoryInfo(handle).free)
    return torch.cuda.mem_get_info(index)[0]


def _pin_bandwidth(uuid: str | None) -> float | None:
    """Bytes per second that the memory's pins carry: two transfers a clock, by bus width."""
    with contextlib.suppress(Exception), nvml.card(uuid) as card:
        if card is not None:
            library, handle = card
            clock_mhz = library.nvmlDeviceGetMaxClockInfo(handle, library.NVML_CLOCK_MEM)
            return float(2e6 * clock_mhz * library.nvmlDeviceGetMemoryBusWidth(handle) / 8)
    return None


def environment(device: Device, *, threads: int, allow_tf32: bool) -> Environment:
    """What a row says about where it was measured. NVML is optional."""
    facts: dict[str, Any] = {}
    if device.type == "cuda":
        with contextlib.suppress(Exception):
            facts = _nvml_facts(device)
    return Environment(
        device_name=device.name,
        device_uuid=_digest(device.uuid),
        cuda=torch.version.cuda if device.type == "cuda" else None,
        torch=torch.__version__,
        python=platform.python_version(),
        host=f"{platform.system()} {platform.release()} {socket.gethostname()}",
        cpu_threads=threads,
        precision=f"tf32={'on' if allow_tf32 else 'off'}",
        **facts,
    )


def _digest(uuid: str | None) -> str | None:
    """Which card of several alike, for rows that are published: 12 hex digits of its UUID's
    SHA-256."""
    return hashlib.sha256(uuid.encode()).hexdigest()[:12] if uuid else None


def _nvml_facts(device: Device) -> dict[str, Any]:
    with nvml.card(device.uuid) as card:
        if card is None:
            return {}
        library, handle = card
        return {
            "driver": library.nvmlSystemGetDriverVersion(),
            "sm_clock_mhz": library.nvmlDeviceGetMaxClockInfo(handle, library.NVML_CLOCK_SM),
            "power_limit_w": library.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
        }
