"""A trial, in data: a few calls of a model, and what they left.

The judge describes a trial. The worker plays it on ModelNew and ships what came of it; only
then the judge plays the same on Model (harness/shared/player.py plays for both).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from harness.shared.draws import Draw, GradDraw
from harness.shared.mixing import Mix
from harness.shared.trees import walk_tensors


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call: under `no_grad`, or followed by a backward with the gradients of `grad`.

    `inputs`: `fresh` tensors; the previous call's tensors `refilled` with the values of
    `draw`; or the `same` tensors with the same values.
    """

    draw: Draw
    grad: GradDraw | None = None
    inputs: str = "fresh"
    training: bool = True


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Calls in order. The gradients asked for are those of `needs` (None: of every leaf)."""

    calls: tuple[Call, ...]
    needs: tuple[str, ...] | None = None
    forwards_first: bool = False
    """All forwards precede the first backward."""
    accumulate: bool = False
    """`backward()` adds up in `.grad`, in place of `autograd.grad` for each call."""
    weights_seed: int | None = None
    """Play on weights drawn from this seed, then put the old ones back."""
    poison: str = "nan"
    """What uninitialised memory holds: a key of worker.calls.POISONS."""

    @property
    def repeats(self) -> bool:
        """Whether the last call is the first once more."""
        return len(self.calls) > 1 and self.calls[0] == self.calls[-1]

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Trial:
        calls = tuple(
            Call(
                draw=_draw(call["draw"]),
                grad=None if call["grad"] is None else GradDraw(**call["grad"]),
                inputs=call["inputs"],
                training=call["training"],
            )
            for call in data["calls"]
        )
        needs = None if data["needs"] is None else tuple(data["needs"])
        return cls(**(data | {"calls": calls, "needs": needs}))


def _draw(data: dict[str, Any]) -> Draw:
    mix = data.get("mix")
    return Draw(**(data | {"mix": None if mix is None else Mix(**mix)}))


@dataclass(kw_only=True)
class Result:
    """What one call left. `inputs` and `grad_outputs` are as they are when the trial ends, and
    `buffers` the memory that they lie in, where that is more. `carries`: by path, whether an
    output that is to be differentiated can be."""

    output: Any = None
    grads: dict[str, torch.Tensor | None] = field(default_factory=dict)
    carries: dict[str, bool] = field(default_factory=dict)
    inputs: dict[str, torch.Tensor] = field(default_factory=dict)
    grad_outputs: dict[str, torch.Tensor] = field(default_factory=dict)
    buffers: dict[str, torch.Tensor] = field(default_factory=dict)

    def leaves(self) -> dict[str, torch.Tensor]:
        """The tensors of output and gradients that hold anything: "output[1]", "grad x"."""
        found = dict(walk_tensors(self.output, "output"))
        found |= {f"grad {n}": g for n, g in self.grads.items() if isinstance(g, torch.Tensor)}
        return {path: tensor for path, tensor in found.items() if tensor.numel()}


@dataclass(kw_only=True)
class Played:
    """What a trial left. Of several calls, `results` hold each output as it was after its call,
    and `later` as it is at the end. `state`: buffers, and new weights, at the end, by name."""

    results: list[Result]
    later: list[Any] = field(default_factory=list)
    state: dict[str, torch.Tensor] = field(default_factory=dict)

    @classmethod
    def from_trees(cls, trees: dict[str, Any], calls: int) -> Played:
        """What a worker says came of a trial. Raises `LookupError`, `TypeError`, `ValueError`
        or `AttributeError` where it is misshapen."""
        results = [
            Result(
                output=result["output"],
                carries={path: bool(flag) for path, flag in _items(result.pop("carries"), bool)},
                **{
                    key: dict(_items(value, torch.Tensor | None))
                    for key, value in result.items()
                    if key != "output"
                },
            )
            for result in map(dict, trees["results"])
        ]
        later = list(trees["later"])
        if len(results) != calls or len(later) != (calls if calls > 1 else 0):
            raise ValueError(f"{len(results)} results and {len(later)} outputs for {calls} calls")
        return cls(results=results, later=later, state=dict(_items(trees["state"], torch.Tensor)))


def _items(claim: dict[str, Any], kind: Any) -> Iterator[tuple[str, Any]]:
    """The items of a dict, of one kind of value. Raises `TypeError` or `AttributeError`."""
    for name, value in claim.items():
        if not isinstance(value, kind):
            raise TypeError(f"{name} is a {type(value).__name__}")
        yield name, value
