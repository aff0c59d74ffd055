"""The least work that a problem is: bytes that must move, operations that must be done.

Counted from the reference at the graded size. Bytes are those of unique storage: each input
and parameter read once, each output and gradient written once; of an input, only elements that
the output can depend on, and in backward only inputs whose size some gradient depends on (where
no more than signs, an order or indices count, forward could have kept those). Operations are those
that `torch.utils.flop_counter` has formulas for: matrix products, convolutions, attention; not
elementwise. Its own context manager hooks modules in a way that `autograd.grad` refuses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from harness.judge.reference import Reference
from harness.judge.timing import dependence
from harness.shared.dispatch import DispatchMode
from harness.shared.draws import Draw, GradDraw
from harness.shared.trees import walk_tensors
from harness.shared.trial import Result


@dataclass(frozen=True, kw_only=True)
class Step:
    """A stretch of work that nothing of the next one can overlap: bytes and FLOPs."""

    read: int
    written: int
    flops: int = 0


@dataclass(frozen=True, kw_only=True)
class Work:
    """What forward and backward must do at least. `proven`: bytes of inputs by which the output
    provably varies (elements with a gradient that is not zero)."""

    forward: Step
    backward: Step | None
    proven: int = 0

    def steps(self, mode: str) -> tuple[Step, ...]:
        """The steps of a mode. forward_backward has two: the gradient of the output is known
        only after forward has returned, so backward reads anew whatever it needs."""
        if mode in ("forward", "forward_train") or self.backward is None:
            return (self.forward,)
        return (self.backward,) if mode == "backward" else (self.forward, self.backward)


def count(reference: Reference, *, differentiable: bool, probe: Reference | None = None) -> Work:
    """Count one call of the reference. `probe`: the same at a smaller size, to find out which
    inputs backward needs. Raises what the reference raises."""
    draw = Draw(seed=1)
    with _FlopCounter() as counter:
        result = reference.call(draw)
    forward_flops = counter.total
    values = dependence.values(reference, result)
    inputs, outputs = _bytes(list(values.values())), _bytes(result.output)
    if not differentiable:
        forward = Step(read=inputs, written=outputs, flops=forward_flops)
        return Work(forward=forward, backward=None)
    with _FlopCounter() as counter:
        result = reference.call(draw, GradDraw(seed=2))
    needed = dependence.needed_by_backward(probe or reference)
    read = _bytes([t for name, t in values.items() if name in needed])
    backward = Step(
        read=read + _bytes(list(result.grad_outputs.values())),
        written=_bytes([g for g in result.grads.values() if g is not None]),
        flops=counter.total - forward_flops,
    )
    idle = sum(dependence.idle_bytes(reference, result, name) for name in result.grads)
    forward = Step(read=inputs - idle, written=outputs, flops=forward_flops)
    return Work(forward=forward, backward=backward, proven=_proven(result))


class _FlopCounter(DispatchMode):
    """Adds up the operations of what is dispatched inside of it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None:
            self.total += int(formula(*args, **(kwargs or {}), out_val=out))
        return out


def _proven(result: Result) -> int:
    """Bytes of the leaves' elements whose gradient is not zero."""
    grads = [g for g in result.grads.values() if g is not None]
    return sum(int(torch.count_nonzero(g)) * g.element_size() for g in grads)


def _bytes(tree: Any) -> int:
    """Bytes of unique storage: a view counts once with its base, an expanded tensor once."""
    seen: dict[int, int] = {}
    for _, tensor in walk_tensors(tree, ""):
        extent = math.prod(tensor.shape) * tensor.element_size()
        storage = tensor.untyped_storage()
        seen[storage.data_ptr()] = min(storage.nbytes(), seen.get(storage.data_ptr(), 0) + extent)
    return sum(seen.values())
