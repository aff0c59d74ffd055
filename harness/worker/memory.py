"""Peak memory of one side, in its own untimed pass.

On CUDA by the caching allocator's own peak. A side that resets the peak is found out: one set on
purpose before a further call must still stand after it. On a CPU by the profiler's
allocation events: process high-water marks miss what is reused.

Memory that native code takes around the allocator (cudaMalloc, managed, pinned, malloc) is not in
it: the judge sees that from outside (`judge.process.watermark`).
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from harness.shared.problem import Draw, Instance
from harness.shared.trees import bytes_of
from harness.worker.calls import Side, call_set

MIB = 1 << 20
WARM_CALLS = 3
CANARY_BYTES = 16 << 20  # above the peak, on purpose


@dataclass(frozen=True, kw_only=True)
class Peak:
    """MiB at most: `used_mib` in one call; `held_mib` in that and those before it, memory that the
    allocator keeps for later included."""

    used_mib: float
    held_mib: float


def peak(instance: Instance, side: Side, mode: str, seed: int, base_bytes: int) -> Peak:
    """Peak of one call of `mode`, outputs alive: inputs, parameters, workspaces, transients.

    `base_bytes`: CUDA memory in use that is not this side's (the other side's parameters).
    Raises `PeakReset`.
    """
    cuda = instance.device.type == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    calls = call_set(instance, Draw(seed=seed), grad=mode != "forward", grad_seed=seed + 1)
    for _ in range(WARM_CALLS):
        side.run(mode, calls, None)
    gc.collect()
    if cuda:
        return _of_the_allocator(lambda: side.run(mode, calls, None), base_bytes)
    trim_heap()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        kept = side.run(mode, calls, None)
    del kept
    held = bytes_of([list(side.model.parameters()), calls.inputs])
    used_mib = (held + _transient_bytes(record)) / MIB
    return Peak(used_mib=used_mib, held_mib=used_mib)


def _of_the_allocator(call: Callable[[], Any], base_bytes: int) -> Peak:
    """By what PyTorch's allocator of CUDA memory counts."""
    torch.cuda.empty_cache()  # what the judge sees is what is in use
    torch.cuda.synchronize()
    warm_bytes = torch.cuda.max_memory_reserved()
    torch.cuda.reset_peak_memory_stats()
    kept = call()
    torch.cuda.synchronize()
    used_bytes = torch.cuda.max_memory_allocated()
    del kept
    if _peak_is_reset(call, used_bytes):
        raise PeakReset("the peak of memory was reset by a call")
    held_bytes = max(warm_bytes, torch.cuda.max_memory_reserved())
    return Peak(used_mib=(used_bytes - base_bytes) / MIB, held_mib=held_bytes / MIB)


def trim_heap() -> None:
    """What is free goes back, so that what the judge sees is what is in use (glibc)."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


class PeakReset(Exception):
    """The allocator's peak does not tell what a call took."""


def _peak_is_reset(call: Callable[[], Any], peak: int) -> bool:
    """Whether a peak somewhat above `peak`, set before `call`, is gone after it."""
    torch.cuda.reset_peak_memory_stats()
    wanted = peak + CANARY_BYTES - torch.cuda.memory_allocated()
    canary = torch.empty(wanted, dtype=torch.uint8, device="cuda")
    level = torch.cuda.max_memory_allocated()
    del canary
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() < level


def _transient_bytes(record: Any) -> int:
    """Largest sum of the allocations and frees of a profile, in the order of their times."""
    nodes, events = list(record.profiler.kineto_results.experimental_event_tree()), []
    while nodes:
        node = nodes.pop()
        nodes.extend(node.children)
        size = getattr(node.extra_fields, "alloc_size", None)
        if size is not None:
            events.append((node.start_time_ns, size))
    held = peak = 0
    for _, size in sorted(events):
        held += size
        peak = max(peak, held)
    return peak
