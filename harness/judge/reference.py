"""Expected outputs, gradients and their fp64 oracle, computed by the judge itself.

Nothing here runs before the worker has answered: while a solution runs, the right answer to
its inputs does not exist.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil
import torch

from harness.errors import ProblemError
from harness.problem import Draw, Instance, grad_outputs, map_tensors, walk_tensors

#: Bytes that the oracle may need, as a multiple of the inputs' own in fp64: inputs, outputs,
#: gradients, and as many temporaries again.
ORACLE_FACTOR = 8


@dataclass(kw_only=True)
class Expected:
    """One call's results: at the declared dtype, and in fp64 (None where it does not fit)."""

    output: Any
    grads: dict[str, Any]
    inputs: list[Any]
    oracle_output: Any = None
    oracle_grads: dict[str, Any] | None = None

    @property
    def finite(self) -> bool:
        """Whether the output at the declared dtype is finite throughout."""
        return all(
            bool(torch.isfinite(t).all())
            for _, t in walk_tensors([self.output, self.grads], "")
            if t.is_floating_point()
        )


class Reference:
    """The reference model in the judge's process. What fails in it is a `ProblemError`."""

    def __init__(self, instance: Instance, weights_seed: int) -> None:
        self.instance = instance
        self.model = instance.model(weights_seed)

    @property
    def differentiable(self) -> bool:
        """Whether a backward is asked for: a leaf to differentiate by, and an output with one."""
        inputs = self.instance.inputs(Draw(seed=1))
        leaves = self.instance.leaves(inputs)
        for leaf in leaves.values():
            leaf.requires_grad_(True)
        parameters = any(p.requires_grad for p in self.model.parameters())
        if not leaves and not parameters:
            return False
        output = _call(self.instance, self.model, inputs)
        return any(t.requires_grad for _, t in walk_tensors(output, ""))

    def forward(self, draw: Draw, *, oracle: bool = True) -> Expected:
        """Output without grad, for the inputs of `draw`."""
        inputs = self.instance.inputs(draw)
        with torch.no_grad():
            torch.manual_seed(draw.seed)
            output = _call(self.instance, self.model, inputs)
        expected = Expected(output=output, grads={}, inputs=inputs)
        if oracle:
            self._add_oracle(expected, draw, None)
        return expected

    def backward(self, draw: Draw, grad_seed: int, *, oracle: bool = True) -> Expected:
        """Output and gradients, for the inputs of `draw` and the output gradients of a seed."""
        inputs = self.instance.inputs(draw)
        output, grads = _differentiate(self.instance, self.model, inputs, draw.seed, grad_seed)
        expected = Expected(output=output, grads=grads, inputs=_detached(inputs))
        if oracle:
            self._add_oracle(expected, draw, grad_seed)
        return expected

    def _add_oracle(self, expected: Expected, draw: Draw, grad_seed: int | None) -> None:
        """The same in fp64, from the inputs and weights as rounded to the declared dtype."""
        size = sum(t.numel() * 8 for _, t in walk_tensors(expected.inputs, ""))
        if size * ORACLE_FACTOR > free_bytes(self.instance.device):
            return
        try:
            with _in_double(self.model):
                inputs = map_tensors(_to_double, self.instance.inputs(draw))
                if grad_seed is None:
                    with torch.no_grad():
                        torch.manual_seed(draw.seed)
                        expected.oracle_output = _call(self.instance, self.model, inputs)
                    return
                expected.oracle_output, expected.oracle_grads = _differentiate(
                    self.instance, self.model, inputs, draw.seed, grad_seed, expected.output
                )
        except (torch.OutOfMemoryError, ProblemError):  # no fp64 kernel, or dtypes fixed inside
            expected.oracle_output = expected.oracle_grads = None

    def release(self) -> None:
        """Give memory back to the device, for the worker."""
        gc.collect()
        if self.instance.device.type == "cuda":
            torch.cuda.empty_cache()


def _call(instance: Instance, model: torch.nn.Module, inputs: list[Any]) -> Any:
    return instance.guard("Model.forward", lambda: model(*inputs))


def _differentiate(
    instance: Instance,
    model: torch.nn.Module,
    inputs: list[Any],
    seed: int,
    grad_seed: int,
    like: Any = None,
) -> tuple[Any, dict[str, Any]]:
    """Output and gradients by leaf name. `like`: outputs whose dtype the gradients are drawn in."""
    leaves = instance.leaves(inputs)
    for leaf in leaves.values():
        leaf.requires_grad_(True)
    leaves |= {n: p for n, p in model.named_parameters() if p.requires_grad}
    torch.manual_seed(seed)
    output = _call(instance, model, inputs)
    outputs = [t for _, t in walk_tensors(output, "output") if t.requires_grad]
    if like is None:
        drawn = grad_outputs(outputs, grad_seed)
    else:
        paths = [p for p, t in walk_tensors(output, "output") if t.requires_grad]
        twins = dict(walk_tensors(like, "output"))
        drawn = [g.double() for g in grad_outputs([twins[p] for p in paths], grad_seed)]
    grads = instance.guard(
        "the gradient of Model",
        lambda: torch.autograd.grad(outputs, list(leaves.values()), drawn, allow_unused=True),
    )
    return _detached(output), dict(zip(leaves, _detached(list(grads)), strict=True))


def _detached(value: Any) -> Any:
    return map_tensors(lambda t: t.detach(), value)


def _to_double(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


@contextmanager
def _in_double(model: torch.nn.Module) -> Iterator[None]:
    """The model's floating parameters and buffers in fp64, and back as they were, bit by bit."""
    tensors = [t for t in [*model.parameters(), *model.buffers()] if t.is_floating_point()]
    before = [t.data for t in tensors]
    for tensor in tensors:
        tensor.data = tensor.data.double()
    try:
        yield
    finally:
        for tensor, data in zip(tensors, before, strict=True):
            tensor.data = data


def free_bytes(device: torch.device) -> int:
    """Memory that could be allocated on the device now."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)
