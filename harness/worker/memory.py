"""Peak memory of one side, in its own untimed pass.

On CUDA by the caching allocator's own peak; what a side allocates around it shows as a change
of the device's free memory beyond the allocator's (`hidden`). On a CPU by the profiler's
allocation events: process high-water marks miss what is reused. Native code that calls malloc
itself is not seen there.
"""

from __future__ import annotations

import gc
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from harness.problem import Draw, Instance
from harness.trees import walk_tensors
from harness.worker.calls import Side, call_set

MIB = 1 << 20
WARM_CALLS = 3


def peak_mib(instance: Instance, side: Side, mode: str, seed: int, base_bytes: int) -> float:
    """Peak MiB of one call of `mode`, outputs alive: inputs, parameters, workspaces, transients.

    `base_bytes`: CUDA memory in use that is not this side's (the other side's parameters).
    """
    calls = call_set(instance, Draw(seed=seed), grad=mode != "forward", grad_seed=seed + 1)
    for _ in range(WARM_CALLS):
        side.run(mode, calls, None)
    gc.collect()
    if instance.device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        kept = side.run(mode, calls, None)
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated() - base_bytes
        del kept
        return peak / MIB
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        kept = side.run(mode, calls, None)
    del kept
    own = sum(p.numel() * p.element_size() for p in side.model.parameters())
    inputs = sum(t.numel() * t.element_size() for _, t in walk_tensors(calls.inputs, ""))
    return (own + inputs + _transient_bytes(record)) / MIB


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
