"""What a device can do: memory bandwidth by the share of bytes written, matrix products.

Reading alone is faster than copying (4.5 against 4.2 TB/s on an H200), so one figure does not
fit a reduction and an elementwise kernel alike. Each mix takes the best of a few plain kernels
that move it; the limit is what was seen to be reached, not the datasheet's figure.
"""

from __future__ import annotations

import functools
import importlib.util
import time
from collections.abc import Callable

import torch

CUDA_BYTES = 2 << 30  # per buffer: forty times the L2 of an H200
CPU_BYTES = 128 << 20
REPEATS = 10
SLEEP_CYCLES = 400_000  # 0.2 ms at 2 GHz: the host needs a tenth of it to enqueue


def bandwidth(device: torch.device) -> list[tuple[float, float]]:
    """(share written, bytes per second) of four mixes: read, two reads a write, copy, fill."""
    wanted = CUDA_BYTES if device.type == "cuda" else CPU_BYTES
    if device.type == "cuda":
        wanted = min(wanted, torch.cuda.mem_get_info(device)[0] // 4)
    a, b, c = (torch.randn(wanted // 4, device=device) for _ in range(3))
    mixes: list[tuple[float, int, list[Callable[[], object]]]] = [
        (0.0, 1, [lambda: a.sum(), lambda: a.amax(), lambda: a.view(-1, 1 << 14).sum(1)]),
        (0.0, 2, [lambda: torch.dot(a, b)]),
        (1 / 3, 3, [lambda: torch.add(a, b, out=c)]),
        (1 / 2, 2, [lambda: c.copy_(a), lambda: torch.neg(a, out=c)]),
        (1.0, 1, [lambda: c.fill_(2.0), lambda: c.zero_()]),
    ]
    if device.type == "cuda" and importlib.util.find_spec("triton"):
        from harness.worker import read_kernel

        partial = torch.empty(a.numel() // read_kernel.SMALLEST + 1, device=device)
        one = functools.partial(read_kernel.read, a, partial)
        two = functools.partial(read_kernel.read_two, a, b, partial)
        mixes.append((0.0, 1, [functools.partial(one, *s) for s in read_kernel.SHAPES]))
        mixes.append((0.0, 2, [functools.partial(two, *s) for s in read_kernel.SHAPES]))
    best: dict[float, float] = {}
    for share, buffers, kernels in mixes:
        for kernel in kernels:
            rate = buffers * a.numel() * 4 / _seconds(kernel, device)
            best[share] = max(rate, best.get(share, 0.0))
    return sorted(best.items())


def matmul_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Floating-point operations per second of a large square matrix product at `dtype`."""
    size = 8192 if device.type == "cuda" else 1024
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    return 2 * size**3 / _seconds(lambda: a @ b, device)


def _seconds(kernel: Callable[[], object], device: torch.device) -> float:
    """The fastest of several runs, after one that may compile. On CUDA each is enqueued behind
    a short sleep, so that no launch is timed."""
    kernel()
    best = float("inf")
    for _ in range(REPEATS):
        if device.type == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(SLEEP_CYCLES)
            start.record()
            kernel()
            end.record()
            end.synchronize()
            best = min(best, start.elapsed_time(end) / 1e3)
        else:
            began = time.perf_counter()
            kernel()
            best = min(best, time.perf_counter() - began)
    return best
