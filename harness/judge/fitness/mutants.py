"""Mutants of a reference: ways to be wrong that a fit problem must tell from being right.

`FAMILIES` is the whole list. A mutant makes a wrong result for a scene, which is one call of
the reference; `lint` judges it by the rules that solutions are judged by.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch

from harness.judge.checking.survey import Survey
from harness.judge.fitness.skip import Skip
from harness.judge.reference import Reference
from harness.shared.draws import Draw
from harness.shared.trees import map_tensors, walk_tensors
from harness.shared.trial import Call, Result, Trial

#: A factor that nobody could take for rounding.
WRONG_BY = {torch.float64: 1.01, torch.float32: 1.01, torch.float16: 1.05, torch.bfloat16: 1.25}
NARROWER = (torch.float16, torch.bfloat16)
#: Of the parameters and operations of a deep model so many are tried, evenly spread: each takes a
#: forward for every draw of the inputs.
MOST_PARAMETERS, MOST_OPERATIONS = 32, 64
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One call of the reference: what it gives, what is true, and the mean over other seeds."""

    reference: Reference
    trial: Trial
    result: Result
    oracle: Result | None
    mean: Result

    def played(self, **changes: Any) -> Result:
        """The call once more, changed."""
        return self.reference.play(self.trial, **changes).results[0]

    def other(self) -> Result:
        """The same kind of call from other seeds."""
        (call,) = self.trial.calls
        draw = replace(call.draw, seed=call.draw.seed + 1)
        grad = call.grad and replace(call.grad, seed=call.grad.seed + 1)
        trial = replace(self.trial, calls=(replace(call, draw=draw, grad=grad),))
        return self.reference.play(trial).results[0]


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """`output`, `grads`: what of its result is judged. `everywhere`: each leaf must be caught,
    not one of them. `precise`: wrong by precision alone. `weights`: judged on new weights."""

    name: str
    make: Callable[[Scene], Result]
    output: bool = True
    grads: bool = True
    everywhere: bool = True
    precise: bool = False
    weights: bool = False


def constants(reference: Reference, survey: Survey) -> Iterator[Mutant]:
    """Results that do not come from the inputs, or not from these."""
    yield Mutant(name="zeros", make=lambda scene: _mapped(scene.result, torch.zeros_like))
    yield Mutant(name="the mean over other seeds", make=lambda scene: scene.mean)
    yield Mutant(name="the result for another seed", make=Scene.other)


def scaled(reference: Reference, survey: Survey) -> Iterator[Mutant]:
    """Results that are wrong by a factor."""
    factor = WRONG_BY[reference.instance.dtype]

    def wrong(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype is torch.bool:
            return ~tensor
        if tensor.is_floating_point():
            return tensor * factor
        return tensor + 1 if tensor.is_complex() else (tensor.long() + 1).to(tensor.dtype)

    def make(scene: Scene) -> Result:
        return _mapped(scene.result, wrong)

    yield Mutant(name=f"{factor:g} times the result", make=make)


def ones(reference: Reference, survey: Survey) -> Iterator[Mutant]:
    """Gradients that do not depend on those of the outputs."""

    def make(scene: Scene) -> Result:
        (call,) = scene.trial.calls
        assert call.grad is not None
        call = replace(call, grad=replace(call.grad, layout="ones"))
        return reference.play(replace(scene.trial, calls=(call,))).results[0]

    if survey.outputs:
        yield Mutant(name="gradients for an output gradient of ones", make=make, output=False)


def unread_inputs(reference: Reference, survey: Survey) -> Iterator[Mutant]:
    """One input is not read: another draw of it gives the same."""
    inputs = reference.instance.inputs(Draw(seed=1))
    for i, name in enumerate(reference.instance.input_names(inputs)):

        def alter(call: Call, given: list[Any], i: int = i) -> list[Any]:
            other = reference.instance.inputs(replace(call.draw, seed=call.draw.seed + 1))
            return [*given[:i], other[i], *given[i + 1 :]]

        if any(True for _ in walk_tensors(inputs[i], name)):
            yield _altered(f"input {name} unread", alter)


def half(reference: Reference, survey: Survey) -> Iterator[Mutant]:
    """The first half of the rows stands for all of them."""

    def repeat(tensor: torch.Tensor) -> torch.Tensor:
        rows = len(tensor) // 2 if tensor.ndim else 0
        if rows:
            tensor = tensor.clone()  # an expanded one has but one row
            tensor[rows : 2 * rows] = tensor[:rows].clone()
        return tensor

    def alter(call: Call, inputs: list[Any]) -> list[Any]:
        return [map_tensors(repeat, value) for value in inputs]

    yield _altered("half of the data", alter)


def narrow(reference: Reference, survey: Survey) -> Iterator[Mutant]:
    """Inputs and weights are rounded to a narrower type, as if that were computed in."""
    if torch.finfo(reference.instance.dtype).bits < 32:
        return
    for dtype in NARROWER:

        def rounded(tensor: torch.Tensor, dtype: torch.dtype = dtype) -> torch.Tensor:
            return tensor.to(dtype).to(tensor.dtype) if tensor.is_floating_point() else tensor

        def make(scene: Scene, rounded: Any = rounded) -> Result:
            weights = dict.fromkeys(reference.binding.parameters(), rounded)
            return scene.played(
                alter=lambda call, inputs: [map_tensors(rounded, v) for v in inputs],
                around=lambda poison: _changed(reference, weights),
            )

        name = str(dtype).removeprefix("torch.")
        yield Mutant(name=f"{name} inside", make=make, precise=True)


def unread_weights(reference: Reference, survey: Survey) -> Iterator[Mutant]:
    """One parameter is not read: it keeps the value that it had before the weights were renewed."""
    for name in _spread(list(reference.binding.parameters()), MOST_PARAMETERS):

        def make(scene: Scene, name: str = name) -> Result:
            old = reference.binding.parameters()[name].detach().clone()
            weights = {name: lambda new: old}
            return scene.played(around=lambda poison: _changed(reference, weights))

        yield Mutant(
            name=f"parameter {name} unread", make=make, grads=False, everywhere=False, weights=True
        )


def skipped(reference: Reference, survey: Survey) -> Iterator[Mutant]:
    """One operation is skipped: it gives its first argument of the right shape back."""
    counter = Skip(None)
    reference.play(Trial(calls=(Call(draw=Draw(seed=1)),)), around=lambda poison: counter)
    for number, operation in _spread(list(enumerate(counter.operations)), MOST_OPERATIONS):

        def make(scene: Scene, number: int = number) -> Result:
            (call,) = scene.trial.calls
            trial = replace(scene.trial, calls=(replace(call, grad=None),))
            return reference.play(trial, around=lambda poison: Skip(number)).results[0]

        name = f"operation {number + 1} ({operation}) skipped"
        yield Mutant(name=name, make=make, grads=False, everywhere=False)


Family = Callable[[Reference, Survey], Iterator[Mutant]]
FAMILIES: tuple[Family, ...] = (
    constants,
    scaled,
    ones,
    unread_inputs,
    half,
    narrow,
    unread_weights,
    skipped,
)


def _spread(items: list[_T], most: int) -> list[_T]:
    """All, or `most` of them, the first and the last among them."""
    if len(items) <= most:
        return items
    return [items[number * (len(items) - 1) // (most - 1)] for number in range(most)]


def _mapped(result: Result, action: Callable[[torch.Tensor], torch.Tensor]) -> Result:
    return Result(
        output=map_tensors(action, result.output),
        grads=map_tensors(action, result.grads),
        carries=result.carries,
    )


def _altered(name: str, alter: Callable[[Call, list[Any]], list[Any]]) -> Mutant:
    """A mutant of the inputs. Gradients may well not depend on an input; outputs must."""
    return Mutant(
        name=name,
        make=lambda scene: scene.played(alter=alter),
        grads=False,
        everywhere=False,
    )


@contextlib.contextmanager
def _changed(
    reference: Reference, weights: dict[str, Callable[[torch.Tensor], torch.Tensor]]
) -> Iterator[None]:
    """Some of the model's parameters changed, for a while."""
    parameters = reference.binding.parameters()
    before = {name: parameters[name].data for name in weights}
    for name, change in weights.items():
        parameters[name].data = change(before[name])
    try:
        yield
    finally:
        for name, data in before.items():
            parameters[name].data = data
