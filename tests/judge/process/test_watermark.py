"""What is seen of a device's memory from outside, by what the driver tells."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from harness.judge.process import watermark

JUDGE, WORKER, STRANGER = os.getpid(), 2, 3
GIB = 1 << 30


class Driver:
    """NVML of a card on which `used` bytes are in use, some of them by processes that it names."""

    def __init__(self, used: int, processes: dict[int, int | None] | None) -> None:
        self.used = used
        self.processes = processes

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:
        return SimpleNamespace(used=self.used)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[SimpleNamespace]:
        if self.processes is None:
            raise RuntimeError("not supported")
        return [SimpleNamespace(pid=p, usedGpuMemory=b) for p, b in self.processes.items()]


@pytest.mark.parametrize(
    ("used", "processes", "seen"),
    [
        (9 * GIB, {JUDGE: 2 * GIB, WORKER: 7 * GIB}, (7 * GIB, False)),
        # Managed memory is in use, and no process's; a stranger's could be.
        (9 * GIB, {JUDGE: 2 * GIB, WORKER: 4 * GIB}, (7 * GIB, False)),
        (9 * GIB, {JUDGE: 2 * GIB, WORKER: 4 * GIB, STRANGER: GIB}, (4 * GIB, False)),
        (9 * GIB, {JUDGE: 2 * GIB}, (7 * GIB, False)),
        # Numbers of another namespace, none at all, or no figure: the whole device's.
        (9 * GIB, {70: 2 * GIB, 71: 7 * GIB}, (9 * GIB, True)),
        (9 * GIB, {JUDGE: None, WORKER: None}, (9 * GIB, True)),
        (9 * GIB, None, (9 * GIB, True)),
    ],
)
def test_memory_is_the_workers_or_the_whole_devices(
    used: int, processes: dict[int, int | None] | None, seen: tuple[int, bool]
) -> None:
    card: Any = (Driver(used, processes), 0)
    assert watermark._device_bytes(card, [WORKER]) == seen


def test_without_a_driver_nothing_is_told() -> None:
    assert watermark._device_bytes(None, [WORKER]) == (None, False)
    assert watermark._device_bytes((object(), 0), [WORKER]) == (None, False)
