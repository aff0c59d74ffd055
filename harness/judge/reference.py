"""Expected results, and their fp64 oracle, computed by the judge itself.

Nothing here runs before the worker has answered: while a solution runs, the right answer to
its inputs does not exist.
"""

from __future__ import annotations

import functools
import gc
import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil
import torch

from harness.errors import ProblemError
from harness.shared.binding import Binding, NoBackward
from harness.shared.draws import Draw, GradDraw
from harness.shared.numerics import numerics
from harness.shared.player import Player
from harness.shared.problem import Instance
from harness.shared.trees import dense, inexact, map_tensors, once, walk_tensors
from harness.shared.trial import Call, Played, Result, Trial

#: Bytes that the oracle may need, as a multiple of the inputs' own in fp64: inputs, outputs,
#: gradients, and as many temporaries again.
ORACLE_FACTOR = 8
#: Of a device's memory, what the judge may hold while a worker works: so much, and more where
#: `ROOM` times as much is free beside. To get it from the driver again takes longer than a check.
LITTLE_BYTES = 256 << 20
ROOM = 3
IMPORTED_BY_GRAD = "torch.fx.experimental.symbolic_shapes"  # when it is first called
CONSTANTS_SEED = 1  # of other weights than those in use


@dataclass(kw_only=True)
class Expected:
    """A trial's results: at the declared dtype, and in fp64 (None where it does not fit)."""

    played: Played
    oracle: Played | None = None

    @property
    def finite(self) -> bool:
        """Whether outputs and gradients at the declared dtype are finite throughout."""
        return all(
            bool(torch.isfinite(tensor).all())
            for result in self.played.results
            for _, tensor in walk_tensors([result.output, result.grads], "")
            if inexact(tensor)
        )


class Reference:
    """The reference model in the judge's process, as exact as a worker's (`shared/numerics.py`).
    What fails in it is a `ProblemError`."""

    def __init__(self, instance: Instance, weights_seed: int, *, allow_tf32: bool = False) -> None:
        self.instance = instance
        self._exactly = functools.partial(numerics, allow_tf32=allow_tf32)
        with self._exactly():
            self.model = instance.model(weights_seed)
        self.binding = Binding.to_itself(self.model)

    def expected(self, trial: Trial, *, oracle: bool) -> Expected:
        """What comes of a trial. Raises `ProblemError`, `NoBackward`, `OutOfMemoryError`."""
        expected = Expected(played=self.play(trial))
        if oracle:
            expected.oracle = self.oracle(trial, expected.played)
        return expected

    def call(self, draw: Draw, grad: GradDraw | None = None, *, salt: int = 0) -> Result:
        """What comes of one call, with a backward where `grad` names one. `salt`: another one,
        and the model draws other random numbers itself."""
        trial = Trial(calls=(Call(draw=draw, grad=grad),))
        return self.play(trial, salt=salt).results[0]

    @property
    def differentiated(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Paths of the outputs that carry a gradient, and the names of what has one (a weight
        that is not used has none); nothing, where no backward is asked for. Raises
        `ProblemError`."""
        call = Call(draw=Draw(seed=1), grad=GradDraw(seed=1))
        try:
            # Twice: what the first call leaves in an attribute may have a graph that is gone then.
            result = self.play(Trial(calls=(call, call))).results[0]
        except NoBackward:
            return (), ()
        for name, grad in result.grads.items():
            if grad is not None and not dense(grad):
                text = f"the gradient of {name} is not a dense tensor: it cannot be compared"
                raise ProblemError(text, path=self.instance.path)
        used = tuple(name for name, grad in result.grads.items() if grad is not None)
        return tuple(result.carries), used

    @property
    def constants(self) -> tuple[str, ...]:
        """Names of the buffers that neither a seed nor a call changes: masks, tables."""
        before = {name: tensor.clone() for name, tensor in self.binding.buffers().items()}
        if not before:
            return ()
        other = dict(self.instance.model(CONSTANTS_SEED).named_buffers())
        after = self.play(Trial(calls=(Call(draw=Draw(seed=1)),))).state
        return tuple(
            name
            for name, tensor in before.items()
            if torch.equal(tensor, other[name]) and torch.equal(tensor, after[name])
        )

    def play(self, trial: Trial, **changes: Any) -> Played:
        """The trial on the model as it is; `changes` are those of a `Player`."""
        player = Player(instance=self.instance, binding=self.binding, **changes)
        with _attributes_kept(self.model), self._exactly():
            played: Played = self.instance.guard(
                "Model.forward", lambda: player.play(trial), passing=(NoBackward,)
            )
        return played

    def oracle(self, trial: Trial, played: Played) -> Played | None:
        """What was `played` once more in fp64, from the inputs and weights as rounded to the
        declared dtype; None where it does not fit, or cannot be."""
        inputs = [tensor for result in played.results for tensor in result.inputs.values()]
        size = sum(tensor.numel() * 8 for tensor in inputs)
        if size * ORACLE_FACTOR > free_bytes(self.instance.device):
            return None
        try:
            with _in_double(self.model):
                oracle = self.play(trial, alter=_in_float64)
        except (torch.OutOfMemoryError, ProblemError):  # no fp64 kernel, or dtypes fixed inside
            return None
        return oracle if _shapes(oracle) == _shapes(played) else None  # they may hang on values

    def release(self) -> None:
        """Give memory back to the device, for the worker, where it could want for it."""
        device = self.instance.device
        if device.type != "cuda":
            return
        held = torch.cuda.memory_reserved(device)
        if held > LITTLE_BYTES and free_bytes(device) < ROOM * held:
            gc.collect()
            torch.cuda.empty_cache()


def settle_heap() -> None:
    """Collect garbage, and leave out of later collections what is loaded by now.

    One follows each pass of a check; with all of torch to go through it takes 0.1 s.
    """
    gc.unfreeze()
    settle_more()


def settle_more() -> None:
    """The same for what has been loaded since."""
    gc.collect()
    gc.freeze()


def get_ready() -> None:
    """Load what a backward needs, which takes half a second, while a device is made ready."""
    threading.Thread(target=importlib.import_module, args=(IMPORTED_BY_GRAD,), daemon=True).start()


def _shapes(played: Played) -> list[tuple[str, torch.Size]]:
    results = [[result.output, result.grads] for result in played.results]
    return [(path, tensor.shape) for path, tensor in walk_tensors(results, "")]


def _in_float64(call: Call, inputs: list[Any]) -> list[Any]:
    return [map_tensors(_doubled, value) for value in inputs]


def _doubled(tensor: torch.Tensor) -> torch.Tensor:
    wide = torch.promote_types(tensor.dtype, torch.float64)
    return tensor.to(wide) if inexact(tensor) else tensor


@contextmanager
def _in_double(model: torch.nn.Module) -> Iterator[None]:
    """The model's tensors in fp64, and back as they were, bit by bit."""
    tensors = [t for t in [*model.parameters(), *model.buffers()] if inexact(t)]
    before = [t.data for t in tensors]
    attributes = _attributes(model)
    for tensor in tensors:
        tensor.data = _doubled(tensor.data)
    for where, name, tensor in attributes:
        where[name] = _doubled(tensor.detach())
    try:
        yield
    finally:
        for tensor, data in zip(tensors, before, strict=True):
            tensor.data = data
        for where, name, tensor in attributes:
            where[name] = tensor


@contextmanager
def _attributes_kept(model: torch.nn.Module) -> Iterator[None]:
    """Tensors that modules hold as plain attributes are what they were before: a state that is
    left there would have the dtype, and the graph, of the calls that left it."""
    before = [(*found, once(found[2]).detach().clone()) for found in _attributes(model)]
    try:
        yield
    finally:
        with torch.no_grad():
            for where, name, tensor, value in before:
                once(tensor).copy_(value)
                where[name] = tensor


def _attributes(model: torch.nn.Module) -> list[tuple[dict[str, Any], str, torch.Tensor]]:
    """Tensors that are neither parameters nor buffers: where they stand, and what they are."""
    return [
        (vars(module), name, value)
        for module in model.modules()
        for name, value in vars(module).items()
        if isinstance(value, torch.Tensor) and dense(value)
    ]


def free_bytes(device: torch.device) -> int:
    """Memory that could be allocated on the device now."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)
