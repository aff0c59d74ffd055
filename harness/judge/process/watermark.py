"""The most memory that a worker's processes held during an order, as seen from outside.

On a GPU: what the driver (NVML) says that the worker's processes hold of the device, and what it
puts down to no process (managed memory), unless a stranger is on the card; where it does not tell
processes apart (in some containers), what is in use of the whole device less the judge's own; and
memory of the host that is shared with a driver or another process, as pinned and managed memory is.
On a CPU: what the processes hold, mapped files included (modules differ by some MiB of
these, and scratch memory may be a file's), by the kernel's high-water mark.

Not covered: device memory that is held for less than `PERIOD_S` and given back to the driver; on a
GPU, memory of the host that is neither pinned nor shared; what no process has mapped, as a file in
memory (memfd) that is written to and read from.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from harness import nvml
from harness.judge.device import Device
from harness.judge.process.sandbox import Worker, WorkerCrash

MIB = 1 << 20
PERIOD_S = 0.005
_RESET_HIGH_WATER = "5"  # proc(5), clear_refs


@dataclass(frozen=True, kw_only=True)
class Held:
    """MiB at most: `device_mib` of the GPU, `host_mib` of the host; None where nothing tells.
    `whole_device`: the first is not of the worker alone, so others on the card disturb it."""

    device_mib: float | None = None
    host_mib: float | None = None
    whole_device: bool = False

    def beyond(self, usual: Held, more_claimed_mib: float) -> float | None:
        """MiB held beyond `usual` (a worker that loads no solution) and beyond the
        `more_claimed_mib` by which claims differ; None where the two cannot be compared."""
        if self.device_mib is None:
            return _less(self.host_mib, usual.host_mib, more_claimed_mib)
        if self.whole_device is not usual.whole_device:
            return None
        on_device = _less(self.device_mib, usual.device_mib, more_claimed_mib)
        on_host = _less(self.host_mib, usual.host_mib, 0.0)
        return None if on_device is None else max(0.0, on_device) + max(0.0, on_host or 0.0)


def _less(held: float | None, usual: float | None, claimed: float) -> float | None:
    return None if held is None or usual is None else held - usual - claimed


class Watermark:
    """Watches a worker while in its `with` block; `held` is known after it."""

    def __init__(self, worker: Worker, device: Device) -> None:
        self._worker = worker
        self._device = device
        self._looked = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.held = Held()

    def __enter__(self) -> Watermark:
        for pid in self._worker.pids():
            with contextlib.suppress(OSError), open(f"/proc/{pid}/clear_refs", "w") as file:
                file.write(_RESET_HIGH_WATER)
        self._thread.start()
        self._looked.wait()  # a worker that ends at its answer has been seen once at least
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        cuda = self._device.type == "cuda"
        with contextlib.ExitStack() as stack:
            stack.callback(self._looked.set)  # whatever happens, nobody waits for ever
            card = stack.enter_context(nvml.card(self._device.uuid)) if cuda else None
            last = False
            while not last:
                last = self._stop.is_set()  # the last look is after the answer
                with contextlib.suppress(WorkerCrash):  # the next order will tell
                    self._look(card, shared_only=cuda)
                self._looked.set()
                self._stop.wait(PERIOD_S)

    def _look(self, card: Any, *, shared_only: bool) -> None:
        pids = self._worker.pids()
        self._note(_host_bytes(pids, shared_only=shared_only), *_device_bytes(card, pids))

    def _note(self, host: int | None, device: int | None, whole: bool) -> None:
        self.held = Held(
            host_mib=_most(self.held.host_mib, host),
            device_mib=_most(self.held.device_mib, device),
            whole_device=self.held.whole_device or whole,
        )


def _most(mib: float | None, count: int | None) -> float | None:
    return mib if count is None else max(mib or 0.0, count / MIB)


def _host_bytes(pids: Iterable[int], *, shared_only: bool) -> int | None:
    """Bytes of all processes: private and shared at most, or what is shared now."""
    found = [facts for pid in pids if (facts := _status(pid))]
    if not found:
        return None
    if shared_only:
        return sum(facts["RssShmem"] for facts in found)
    return sum(facts["VmHWM"] for facts in found)


def _status(pid: int) -> dict[str, int]:
    """Bytes by name, of /proc/PID/status; empty for a process that has ended."""
    with contextlib.suppress(OSError, ValueError, KeyError), open(f"/proc/{pid}/status") as lines:
        facts = dict(line.split(":", 1) for line in lines)
        names = ("VmHWM", "RssShmem")
        return {name: int(facts[name].split()[0]) * 1024 for name in names}
    return {}


def _device_bytes(card: Any, pids: Iterable[int]) -> tuple[int | None, bool]:
    """Bytes of the device that `pids` hold, and whether it is the whole device's instead."""
    if card is None:
        return None, False
    library, handle = card
    used: dict[int, int] = {}
    whole: int | None = None
    with contextlib.suppress(Exception):  # each call of NVML is optional
        whole = library.nvmlDeviceGetMemoryInfo(handle).used
        processes = library.nvmlDeviceGetComputeRunningProcesses(handle)
        used = {process.pid: process.usedGpuMemory or 0 for process in processes}
    if used.get(os.getpid()):  # else these are numbers of another namespace, or none
        own = sum(used.get(pid, 0) for pid in pids)
        alone = set(used) <= {*pids, os.getpid()}
        nobodys = (whole or 0) - sum(used.values())
        return own + (max(0, nobodys) if alone else 0), False
    if whole is not None:
        return whole - torch.cuda.memory_reserved(), True
    return None, False
