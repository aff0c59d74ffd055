"""What a reference does, found out by calling it: changes inputs, depends on earlier calls, mixes.

Each looks at one trait, from draws that are not used again; `survey` puts them together.
"""

from __future__ import annotations

from typing import Any

import torch

from harness.judge.checking.rules import Rules
from harness.judge.reference import Expected, Reference
from harness.shared.draws import Draw
from harness.shared.mixing import Mix
from harness.shared.trees import inexact, walk_tensors
from harness.shared.trial import Call, Played, Trial


def changes_inputs(reference: Reference, draw: Draw, expected: Expected) -> bool:
    """Whether a call leaves other inputs than were drawn."""
    instance = reference.instance
    inputs = instance.inputs(draw)
    drawn = (
        (path, tensor)
        for name, value in zip(instance.input_names(inputs), inputs, strict=True)
        for path, tensor in walk_tensors(value, name)
    )
    (result,) = expected.played.results
    return any(
        (after := result.inputs.get(path)) is None  # taken out of a dict or a list
        or after.shape != before.shape
        or not torch.allclose(after, before, equal_nan=True)
        for path, before in drawn
    )


def uninitialised(reference: Reference) -> list[str]:
    """Names of the weights that hold NaN."""
    own = reference.binding.parameters() | reference.binding.buffers()
    return [name for name, tensor in own.items() if inexact(tensor) and bool(tensor.isnan().any())]


def depends_on_calls_before(reference: Reference, rules: Rules, draw: Draw) -> bool:
    """Whether a later call gives something else, because of what those before left in buffers.

    By the least difference, where the reference is otherwise exact: a state may converge, and
    timed calls have another one than the judge's.
    """
    other = Draw(seed=2)
    # Two draws in turn, for a state may only grow, as a running maximum does.
    trial = Trial(calls=tuple(Call(draw=one) for one in (draw, other, draw, other)))
    before = {name: tensor.clone() for name, tensor in reference.binding.buffers().items()}
    played = reference.play(trial)
    if all(torch.equal(tensor, before[name]) for name, tensor in played.state.items()):
        return False
    first, _, *later = played.results
    alone = [first, reference.call(other)]
    exact = rules.spread(Played(results=[first, reference.call(draw)])) == 0
    return any(
        rules.spread(Played(results=[was, now])) > 0
        if exact
        else differ(rules, now.output, was.output)
        for was, now in zip(alone, later, strict=True)
    )


def overwrites(reference: Reference, rules: Rules, draw: Draw) -> bool:
    """Whether a second call changes what the first returned."""
    played = reference.play(Trial(calls=(Call(draw=draw), Call(draw=Draw(seed=2)))))
    return differ(rules, played.later[0], played.results[0].output)


def differ(rules: Rules, one: Any, other: Any) -> bool:
    """Whether one output would not pass where the other is expected."""
    return any(check.problem for check in rules.output(one, other))


def has_something_to_mix(reference: Reference) -> bool:
    """Whether an input holds several numbers with a fraction: integers are not mixed."""
    inputs = reference.instance.inputs(Draw(seed=1))
    return any(tensor.ndim and inexact(tensor) for _, tensor in walk_tensors(inputs, ""))


def takes_mixtures(reference: Reference, *, finite: bool) -> bool:
    """Whether rows of two draws may stand side by side, times factors, as in timed calls. `finite`:
    the reference is, for inputs as drawn."""
    draw = Draw(seed=1, mix=Mix(seed=2, begin=0.25, end=0.75, factors=0))
    try:
        mixed = reference.expected(Trial(calls=(Call(draw=draw),)), oracle=False)
    except Exception:  # noqa: BLE001 - whatever the reference raises, it is not asked for again
        return False
    return mixed.finite or not finite
