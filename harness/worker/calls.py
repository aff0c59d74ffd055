"""One forward or backward on fresh inputs, in poisoned memory, raw outputs.

A `Side` is what is called: the reference or the candidate. Its calls are split for timing:
`prepare` is what happens before the clock starts, `run` what is timed. Checks are made of
trials (harness/shared/player.py), which run under `poisoned` and hand out what is `plain`.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from harness.shared.binding import Binding
from harness.shared.buffers import Buffers
from harness.shared.draws import Draw, GradDraw, grad_outputs
from harness.shared.problem import Instance
from harness.shared.trees import dense, map_tensors
from harness.worker.faults import ContractFault

_POISON_LEAST_BYTES = 512 << 20
_POISON_SHARES = (0.5, 0.5, 0.5, 0.5, 1.0, 1.0)  # sizes of blocks, by what inputs and weights take
_SMALL_BYTES = 1 << 20  # the largest request that PyTorch's allocator calls small
_SMALL_BLOCKS = 64

#: What uninitialised memory holds. Two values: what is right under NaN may have read it all the
#: same (as a maximum does that skips NaN), and shows under the other.
POISONS = {"nan": math.nan, "number": 13323083.0}
_M_PERTURB = -6  # malloc.h
_increment_version = torch.autograd.graph.increment_version
_PERTURB_BYTE = 0x4B ^ 0xFF  # malloc fills with its complement; 0x4B4B4B4B is 13323083.0


@dataclass(kw_only=True)
class CallSet:
    """One set of forward arguments, with its leaves and the gradients of its outputs, which
    follow from `grad_seed` and `salt`, a `Mix`'s number."""

    inputs: list[Any]
    leaves: dict[str, torch.Tensor]
    grad_seed: int
    dtype: torch.dtype = torch.float32
    grads: dict[str, torch.Tensor] | None = None
    salt: int = 0

    @torch.no_grad()
    def renew_grads(self, salt: int) -> None:
        """Other gradients of the outputs, at the same addresses and unseen by version counters.
        Where a function is linear in its inputs, its gradients depend on nothing else."""
        self.salt = salt
        for path, grad in (self.grads or {}).items():
            grad.data.copy_(self.drawn_grads({path: grad})[path])

    def drawn_grads(self, outputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Gradients of `outputs`, by path."""
        return grad_outputs(outputs, GradDraw(seed=self.grad_seed ^ self.salt), self.dtype)


def call_set(instance: Instance, draw: Draw, *, grad: bool, grad_seed: int) -> CallSet:
    """Inputs drawn for one call; with `grad`, the leaves among them require it."""
    inputs = instance.inputs(draw)
    leaves = instance.leaves(inputs) if grad else {}
    for leaf in leaves.values():
        leaf.requires_grad_(True)
    salt = draw.mix.grads if draw.mix else 0
    return CallSet(
        inputs=inputs, leaves=leaves, grad_seed=grad_seed, dtype=instance.dtype, salt=salt
    )


class Side:
    """A model and how one mode of it is called. `restored`: its buffers are put back before each
    call, to what they are now. `mutates`: what it leaves in its inputs is a part of its result.
    `steps`: calls in training meet weights of another version each."""

    def __init__(
        self,
        name: str,
        model: torch.nn.Module,
        binding: Binding | None = None,
        *,
        restored: bool = False,
        mutates: bool = False,
    ) -> None:
        self.name = name
        self.model = model
        self.mutates = mutates
        self.binding = binding or Binding.to_itself(model)
        self._restored = Buffers.of(model) if restored else Buffers()
        self.buffers = [tensor for tensor in model.buffers() if dense(tensor)]
        self._weights = list(model.parameters())
        self.steps = True

    def forward(self, calls: CallSet) -> Any:
        """The output of one call."""
        return self.model(*calls.inputs)

    def backward(self, calls: CallSet, output: Any) -> dict[str, torch.Tensor | None]:
        """Gradients of every leaf, by the reference's name; None where there is none.

        Raises `NoBackward` where no output carries a gradient.
        """
        outputs = self.binding.differentiated(output)
        if calls.grads is None or any(  # the inputs may have new values, and a shape hang on those
            calls.grads[path].shape != output.shape for path, output in outputs.items()
        ):
            calls.grads = calls.drawn_grads(outputs)
        parameters = {n: p for n, p in self.binding.parameters().items() if p.requires_grad}
        leaves = calls.leaves | parameters
        grads = torch.autograd.grad(
            list(outputs.values()),
            list(leaves.values()),
            [calls.grads[path] for path in outputs],
            allow_unused=True,
        )
        return dict(zip(leaves, grads, strict=True))

    def prepare(self, mode: str, calls: CallSet) -> Any:
        """What precedes the clock: for `backward`, a fresh forward."""
        self._restored.put_back()
        if mode != "backward":
            return None
        return self.forward(calls)

    def run(self, mode: str, calls: CallSet, prepared: Any) -> Any:
        """The timed part of one call. In training no call meets the weights of the one before:
        they have another version, as an optimiser's step leaves them, though the same values."""
        if self.steps and mode in ("forward_train", "forward_backward"):
            _increment_version(self._weights)
        if mode == "forward":
            with torch.no_grad():
                return self.forward(calls)
        if mode == "backward":
            return self.backward(calls, prepared)
        output = self.forward(calls)
        return (output, self.backward(calls, output)) if mode == "forward_backward" else output


def plain(value: Any) -> Any:
    """`value` with every tensor detached. A tensor subclass could compute on being read, so it
    is refused, as is what is not dense: raises `ContractFault`."""

    def check(tensor: torch.Tensor) -> torch.Tensor:
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or vars(tensor):
            raise ContractFault(
                f"a {type(tensor).__name__} with attributes {sorted(vars(tensor))} was returned; "
                "a plain torch.Tensor is asked for"
            )
        if not dense(tensor):
            raise ContractFault("a tensor that is not dense was returned; a dense one is asked for")
        return torch.Tensor.detach(tensor)

    return map_tensors(check, value)


@dataclass(kw_only=True)
class Poisoned:
    """What the calls of one trial run under: memory that they allocate holds a value of `POISONS`
    until it is written. `base`: bytes of what the first call is given (CUDA); of later ones what
    calls have returned is no part, or blocks grow until judge and worker have no room for both."""

    device: torch.device
    base: int = 0

    def __call__(self, poison: str) -> AbstractContextManager[None]:
        if self.device.type == "cuda" and not self.base:
            self.base = torch.cuda.memory_allocated(self.device)
        return poisoned(self.device, poison, base=self.base)


@contextlib.contextmanager
def poisoned(device: torch.device, poison: str, *, base: int = 0) -> Iterator[None]:
    """Memory that the body allocates holds a value of `POISONS` until it is written.

    On CUDA that is the memory of PyTorch's allocator, up to some times what is in use: filling
    all that is free takes 0.5 s of an H200. What a solution gets from the driver itself is fresh,
    and held zeros whenever we looked. On a CPU fresh pages come back as zeros, so malloc is made
    to fill what it hands out, for native code as well (glibc only). It cannot write NaN: for that,
    torch fills its own tensors after it.
    """
    if device.type == "cuda":
        _fill_cache(device, POISONS[poison], base)
        try:
            yield
        finally:
            torch.cuda.empty_cache()  # what is left of it: others need the memory
        return
    nan = math.isnan(POISONS[poison])
    before = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    mode = torch.get_deterministic_debug_mode()
    if nan:
        torch.set_deterministic_debug_mode("warn")
    torch.utils.deterministic.fill_uninitialized_memory = nan  # type: ignore[attr-defined]
    _perturb(_PERTURB_BYTE)
    try:
        yield
    finally:
        _perturb(0)
        torch.utils.deterministic.fill_uninitialized_memory = before  # type: ignore[attr-defined]
        torch.set_deterministic_debug_mode(mode)


def _perturb(byte: int) -> None:
    """Make malloc fill what it hands out with the complement of `byte`; 0 ends it."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_PERTURB, byte)


def _fill_cache(device: torch.device, value: float, base: int) -> None:
    """Leave PyTorch's allocator blocks that hold `value`, and nothing else to take from.

    They have several sizes, by `base` bytes: a block goes back to the driver whole or not at all,
    and a gradient should not keep more than its own size from others. The allocator serves requests
    up to 1 MiB from blocks of their own, so those are filled as well.
    """
    torch.cuda.empty_cache()
    base = max(_POISON_LEAST_BYTES, base)
    left = torch.cuda.mem_get_info(device)[0] // 2
    blocks = [torch.full((_SMALL_BYTES // 4,), value, device=device) for _ in range(_SMALL_BLOCKS)]
    for share in _POISON_SHARES:
        size = int(base * share)
        if size <= left:
            blocks.append(torch.full((size // 4,), value, dtype=torch.float32, device=device))
            left -= size
    blocks.clear()
