"""Peak memory of one side: what the worker claims, and whether it holds more than that.

A worker that never loads a solution answers the same orders. What its processes hold beyond their
claim (the interpreter, torch, the CUDA context) is what a solution's may hold beyond theirs.
"""

from __future__ import annotations

import dataclasses
import math
import secrets
from dataclasses import dataclass, field
from typing import Any

from harness.judge.context import Context
from harness.judge.process.sandbox import Worker, claimed
from harness.judge.process.watermark import MIB, Held, Watermark
from harness.records import Memory

#: What a solution's modules, libraries and the heap's gaps may take: Triton and Dynamo take 150.
#: What is held beyond it is added to the claim. On a CPU that is all that shows what a solution
#: keeps from call to call: its claim counts one call, and PyTorch's own memory in it.
SLACK_MIB = 192.0
OUTSIDE = "memory_outside"


@dataclass(frozen=True, kw_only=True)
class Peaks:
    """`memory`: the peaks claimed. By mode, `held`: what was seen from outside meanwhile;
    `claimed_mib`: what the worker says that it held then, memory kept for later included."""

    memory: Memory = field(default_factory=Memory)
    held: dict[str, Held] = field(default_factory=dict)
    claimed_mib: dict[str, float] = field(default_factory=dict)

    def beside(self, usual: Peaks) -> tuple[Memory, list[str]]:
        """The memory that a row shows, and its flags: where more was held than claimed, beyond
        what `usual` (of the reference where no solution is loaded) says, that is added."""
        hidden_mib = max(
            (
                self.held[mode].beyond(usual.held[mode], claim - usual.claimed_mib[mode]) or 0.0
                for mode, claim in self.claimed_mib.items()
                if mode in usual.held
            ),
            default=0.0,
        )
        if hidden_mib <= SLACK_MIB:
            return self.memory, []
        inference, training = self.memory.inference_peak_mib, self.memory.training_peak_mib
        shown = dataclasses.replace(
            self.memory,
            inference_peak_mib=None if inference is None else inference + hidden_mib,
            training_peak_mib=None if training is None else training + hidden_mib,
            hidden_mib=hidden_mib,
        )
        return shown, [OUTSIDE]

    def complaint(self, proven_bytes: int) -> str | None:
        """What cannot be about a claim: a call's inputs are in memory while it runs."""
        for peak in (self.memory.inference_peak_mib, self.memory.training_peak_mib):
            if peak is not None and peak * MIB < proven_bytes:
                return (
                    f"a peak of {peak:.4g} MiB is claimed, but the inputs that the result depends "
                    f"on take {proven_bytes / MIB:.4g} MiB"
                )
        return None


def peaks(context: Context, worker: Worker, side: str, *, training: bool) -> Peaks:
    """Measure one side; what the worker kept of earlier orders is given back first. Raises as
    `Worker.ask` does."""
    worker.ask("forget", timeout_s=context.settings.call_timeout_s)
    if not context.settings.measure_memory:
        return Peaks()
    found, held, claimed_mib = {}, {}, {}
    for mode in ("forward", "forward_backward") if training else ("forward",):
        with Watermark(worker, context.device) as mark:
            answer = worker.ask(
                "memory",
                timeout_s=context.settings.call_timeout_s,
                side=side,
                mode=mode,
                seed=secrets.randbits(48),
            ).body["answer"]
        held[mode] = mark.held
        with claimed():
            found[mode] = _mib(answer["peak_mib"])
            claimed_mib[mode] = _mib(answer["held_mib"])
            if answer.get("reset"):
                raise ValueError("the peak of memory was reset while it was measured")
    memory = Memory(
        inference_peak_mib=found["forward"], training_peak_mib=found.get("forward_backward")
    )
    return Peaks(memory=memory, held=held, claimed_mib=claimed_mib)


def _mib(claim: Any) -> float:
    """A peak. Raises `ValueError` or `TypeError`."""
    if not 0 <= float(claim) < math.inf:
        raise ValueError(f"a peak of {claim} MiB")
    return float(claim)
