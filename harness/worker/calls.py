"""One forward or backward on fresh inputs, in poisoned memory, raw outputs.

A `Side` is what is called: the reference or the candidate. Its calls are split for timing:
`prepare` is what happens before the clock starts, `run` what is timed.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from harness.problem import Draw, Instance, grad_outputs, map_tensors, walk_tensors
from harness.worker.faults import ContractFault, NoBackwardFault

_POISON_RESERVE_BYTES = 512 << 20  # left for what the driver itself allocates meanwhile


@dataclass(kw_only=True)
class CallSet:
    """One set of forward arguments, with its leaves and the gradients of its outputs."""

    inputs: list[Any]
    leaves: dict[str, torch.Tensor]
    grad_seed: int
    grads: list[torch.Tensor] | None = None


def call_set(instance: Instance, draw: Draw, *, grad: bool, grad_seed: int) -> CallSet:
    """Inputs drawn for one call; with `grad`, the leaves among them require it."""
    inputs = instance.inputs(draw)
    leaves = instance.leaves(inputs) if grad else {}
    for leaf in leaves.values():
        leaf.requires_grad_(True)
    return CallSet(inputs=inputs, leaves=leaves, grad_seed=grad_seed)


class Side:
    """A model and how one mode of it is called.

    `names`: what its gradients are called where its parameters are named otherwise.
    """

    def __init__(
        self, name: str, model: torch.nn.Module, names: dict[str, str] | None = None
    ) -> None:
        self.name = name
        self.model = model
        self.names = names or {}

    def leaves(self, calls: CallSet) -> dict[str, torch.Tensor]:
        """What gradients are taken of: the named inputs, then the parameters."""
        parameters = {
            self.names.get(n, n): p for n, p in self.model.named_parameters() if p.requires_grad
        }
        return calls.leaves | parameters

    def forward(self, calls: CallSet) -> Any:
        """The output, checked to be made of plain tensors."""
        return self.model(*calls.inputs)

    def backward(self, calls: CallSet, output: Any) -> dict[str, torch.Tensor | None]:
        """Gradients of every leaf, by name; None where there is none.

        Raises `NoBackwardFault` where no output carries a gradient.
        """
        outputs = differentiable(output)
        if not outputs:
            raise NoBackwardFault("the output has no grad_fn: there is no backward")
        if calls.grads is None:
            calls.grads = grad_outputs(outputs, calls.grad_seed)
        leaves = self.leaves(calls)
        grads = torch.autograd.grad(outputs, list(leaves.values()), calls.grads, allow_unused=True)
        return dict(zip(leaves, grads, strict=True))

    def prepare(self, mode: str, calls: CallSet) -> Any:
        """What precedes the clock: for `backward`, a fresh forward."""
        if mode != "backward":
            return None
        return self.forward(calls)

    def run(self, mode: str, calls: CallSet, prepared: Any) -> Any:
        """The timed part of one call."""
        if mode == "forward":
            with torch.no_grad():
                return self.forward(calls)
        if mode == "backward":
            return self.backward(calls, prepared)
        output = self.forward(calls)
        return (output, self.backward(calls, output)) if mode == "forward_backward" else output


def differentiable(output: Any) -> list[torch.Tensor]:
    """The tensors of an output that carry a gradient."""
    return [t for _, t in walk_tensors(output, "output") if t.requires_grad]


def plain(value: Any) -> Any:
    """`value` with every tensor detached. A tensor subclass could compute on being read, so it
    is refused: raises `ContractFault`."""

    def check(tensor: torch.Tensor) -> torch.Tensor:
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or vars(tensor):
            raise ContractFault(
                f"a {type(tensor).__name__} with attributes {sorted(vars(tensor))} was returned; "
                "a plain torch.Tensor is asked for"
            )
        return torch.Tensor.detach(tensor)

    return map_tensors(check, value)


@contextlib.contextmanager
def poisoned(device: torch.device, *, value: float = math.nan) -> Iterator[None]:
    """Memory that the body allocates holds `value` (NaN) until it is written.

    On CUDA all free memory is filled and given back to the driver. On a CPU fresh pages come
    back as zeros, so torch's own fill of uninitialised memory does it (always with NaN or the
    largest integer); allocations outside of torch are not reached there.
    """
    if device.type == "cuda":
        _fill_free_memory(device, value)
        yield
        return
    before = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    mode = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("warn")
    torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = before  # type: ignore[attr-defined]
        torch.set_deterministic_debug_mode(mode)


def _fill_free_memory(device: torch.device, value: float) -> None:
    torch.cuda.empty_cache()
    left = torch.cuda.mem_get_info(device)[0] - _POISON_RESERVE_BYTES
    blocks, piece = [], left
    while piece > (1 << 20):  # a fragmented card yields its memory in smaller pieces
        try:
            blocks.append(torch.full((piece // 4,), value, dtype=torch.float32, device=device))
        except torch.OutOfMemoryError:
            piece //= 2
            continue
        left -= piece
        piece = min(piece, left)
    blocks.clear()
    torch.cuda.empty_cache()
