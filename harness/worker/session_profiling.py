"""The orders that look at memory and kernels, and at what the device can do."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import torch

from harness.shared.draws import Draw
from harness.worker import calls, capability, kernels, loading, memory, meters, nsight, provenance
from harness.worker.session_state import Answer, State


class ProfilingOrders(State):
    """One method per order, as in `Session`."""

    def memory(self, order: dict[str, Any]) -> Answer:
        """Peak MiB of one side: what it has allocated since before it was made, and a call's."""
        assert self.instance is not None
        side = self.side_of(order)
        base = self.base_bytes[order["side"]]
        if side is self.candidate:
            base -= self.import_bytes  # what the solution took at import is its own
        try:
            peak = memory.peak(self.instance, side, order["mode"], order["seed"], base)
        except memory.PeakReset:
            return {"peak_mib": 0.0, "held_mib": 0.0, "reset": True}, {}
        return {"peak_mib": peak.used_mib, "held_mib": peak.held_mib, "reset": False}, {}

    def profile(self, order: dict[str, Any]) -> Answer:
        """Which kernels one call of `mode` ran, and the share that are the solution's own."""
        side, instance = self._candidate()
        call = calls.call_set(
            instance, Draw(seed=order["seed"]), grad=order["mode"] != "forward", grad_seed=1
        )

        def once() -> None:
            side.run(order["mode"], call, None)

        once()
        if instance.device.type != "cuda":
            count, share = provenance.native_calls(once, self.builder.modules)
            unseen = not all(map(vars, self.builder.modules))  # a library that defines no operator
            return {
                "native_calls": None if unseen and not count else count,
                "own_share": share if count else None,
            }, {}
        times = provenance.cuda_kernels(once)
        libraries = [Path(r.library) for r in self.builder.records if r.library]
        triton = provenance.triton_kernels([loading.MODULE_NAME])
        return {
            "kernels": times,
            "own_share": provenance.own_share(times, libraries, triton),
        }, {}

    def kernels(self, order: dict[str, Any]) -> Answer:
        """What one call of `mode` of a side ran, one by one."""
        side, mode, call = self.call_of(order)
        assert self.instance is not None
        found = kernels.measured(
            functools.partial(side.prepare, mode, call),
            functools.partial(side.run, mode, call),
            self.instance.device,
            order["calls"],
        )
        return {"kernels": found}, {}

    def nsight(self, order: dict[str, Any]) -> Answer:
        """Nsight Compute's figures of one call of `mode` of a side, for kernels named."""
        torch.cuda.empty_cache()  # the other process needs as much
        first = {
            "build_cache": str(self.builder.cache),
            "salt": self.builder.salt,
            "run": self.builder.run,
            "lean_builds": self.builder.lean,
        }
        orders = [first, *self.past, order]
        found = nsight.figures(order["ncu"], orders, self.folder, order["limit_s"])
        names = {name: found.get(provenance.bare_name(name)) for name in order["names"]}
        return {"figures": names}, {}

    def calibrate(self, order: dict[str, Any]) -> Answer:
        """What the device can do: memory by the share of bytes written, matrix products, and
        what an event pair costs."""
        assert self.instance is not None
        device, dtype = self.instance.device, self.instance.dtype
        meter = meters.METERS[device.type](device)
        return {
            "bandwidth": capability.bandwidth(device) if order["bandwidth"] else [],
            "flops_per_s": capability.matmul_rate(device, dtype) if order["flops"] else None,
            "overhead_ms": meter.overhead_ms() if isinstance(meter, meters.CudaMeter) else 0.0,
        }, {}
