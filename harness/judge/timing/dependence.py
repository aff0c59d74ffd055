"""What outputs and gradients depend on, found out by giving the reference other values."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch

from harness.errors import ProblemError
from harness.judge.reference import Reference
from harness.shared.draws import Draw, GradDraw
from harness.shared.player import Alter
from harness.shared.trees import walk_tensors
from harness.shared.trial import Call, Result, Trial

SCALE = 1.25  # changes what depends on a value; neither signs nor an order
SAME = 1e-4  # relative: sums in another order differ by less
CHANCE_GAIN = 4.0  # times what two equal calls differ by, as where atomics add up: no dependence
#: Tensors that are tried one by one, and tries where there are more: each is a forward and a
#: backward, and ResNet101 has 626 parameters and buffers.
ALONE, MOST_TRIED = 16, 16
SPARSE = 0.5  # share of elements with a gradient, below which it is asked what the others are for


def values(reference: Reference, result: Result) -> dict[str, torch.Tensor]:
    """Inputs, parameters and buffers by name."""
    own = reference.binding
    return {**own.buffers(), **own.parameters(), **result.inputs}


def needed_by_backward(reference: Reference) -> set[str]:
    """What has a size that some gradient depends on. Integers, which are indices, always.

    Of more tensors than `ALONE`, as deep models have, groups are tried, the largest first, and
    parted where something depends on them; what `MOST_TRIED` tries leave together counts as needed.
    """
    trial = Trial(calls=(Call(draw=Draw(seed=1), grad=GradDraw(seed=2)),))
    plain = reference.play(trial).results[0]
    chance = _chance(plain, reference.play(trial).results[0])

    def matter(names: list[str]) -> bool:
        try:
            scaled = _played(reference, trial, names, lambda tensor: tensor * SCALE)
        except ProblemError:
            return True
        return not all(_same(g, scaled.grads[of], chance[of]) for of, g in plain.grads.items())

    known = values(reference, plain)
    sizes = {name: tensor.nbytes for name, tensor in known.items() if tensor.is_floating_point()}
    names = sorted(sizes, key=sizes.__getitem__, reverse=True)
    groups = [[name] for name in names] if len(names) <= ALONE else [names]
    needed = known.keys() - sizes.keys()
    tried = 0
    while groups:
        group = groups.pop(0)
        tried += 1
        if tried <= MOST_TRIED and not matter(group):
            continue
        if tried > MOST_TRIED or len(group) == 1:
            needed |= {*group}
            continue
        half = _half(group, sizes)
        groups += [group[:half], group[half:]]
        groups.sort(key=lambda group: -sum(sizes[name] for name in group))
    return needed


def _half(group: list[str], sizes: dict[str, int]) -> int:
    """Where to part a group of two or more, so that both parts have about as many bytes."""
    sums = list(itertools.accumulate(sizes[name] for name in group))
    return min(range(1, len(group)), key=lambda at: abs(2 * sums[at - 1] - sums[-1]))


def idle_bytes(reference: Reference, result: Result, name: str) -> int:
    """Bytes of the elements of what `name` names that the output does not depend on, as rows of
    a table that no index names: they have no gradient, and other values there change nothing."""
    grad = result.grads[name]
    if grad is None or int(torch.count_nonzero(grad)) >= SPARSE * grad.numel():
        return 0
    without = grad == 0
    trial = Trial(calls=(Call(draw=Draw(seed=1)),))
    try:
        other = _played(
            reference, trial, [name], lambda tensor: torch.where(without, -2 * tensor - 1, tensor)
        )
    except ProblemError:
        return 0
    ours = dict(walk_tensors(result.output, ""))
    if not all(_same(ours[path], t) for path, t in walk_tensors(other.output, "")):
        return 0
    return int(torch.count_nonzero(without)) * grad.element_size()


def _played(
    reference: Reference,
    trial: Trial,
    names: list[str],
    change: Callable[[torch.Tensor], torch.Tensor],
) -> Result:
    """The trial with other values in place of what `names` name. Raises as `Reference.play`."""
    model = reference.model
    own = dict(model.named_buffers()) | dict(model.named_parameters())
    before = {name: own[name].data for name in names if name in own}
    given = {*names} - before.keys()
    for name, data in before.items():
        own[name].data = change(data)
    try:
        return reference.play(trial, alter=_altering(reference, given, change)).results[0]
    finally:
        for name, data in before.items():
            own[name].data = data


def _altering(
    reference: Reference, chosen: set[str], change: Callable[[torch.Tensor], torch.Tensor]
) -> Alter:
    def alter(call: Call, inputs: list[Any]) -> list[Any]:
        names = reference.instance.input_names(inputs)
        for first, value in zip(names, inputs, strict=True):
            for path, tensor in walk_tensors(value, first):
                if path in chosen:
                    tensor.copy_(change(tensor))
        return inputs

    return alter


def _chance(one: Result, other: Result) -> dict[str, float]:
    """By how much the gradients of two equal calls differ at most; 0 where there is none."""
    found = dict.fromkeys(one.grads, 0.0)
    for name, grad in one.grads.items():
        again = other.grads[name]
        if grad is not None and again is not None and grad.numel() and grad.shape == again.shape:
            found[name] = float((grad - again).abs().nan_to_num_(0.0, 0.0, 0.0).max())
    return found


def _same(one: Any, other: Any, chance: float = 0.0) -> bool:
    """Whether two results are equal, but for the order of sums and what is left to `chance`."""
    if one is None or other is None:
        return one is other
    atol = CHANCE_GAIN * chance
    alike = one.shape == other.shape
    return alike and torch.allclose(one, other, rtol=SAME, atol=atol, equal_nan=True)
