"""Values that no call has seen yet, for the price of a copy; and samples of what a call returned.

A mixture is rows of two draws side by side, each value times a factor between 0.9 and 1 that
depends on its place and on the mixture. So no row comes again, nor a multiple of one: a function
without a bias would often give that the known result times a number.
Every value stays where its own draw put it, and tensors of equal length are mixed in step.
Integers, which may be a permutation or sorted, are taken from one draw as a whole, and single
values are left alone. Judge and worker both work it out from the same seeds.
"""

from __future__ import annotations

import functools
import math
import random
from dataclasses import dataclass, replace
from typing import Any

import torch

from harness.shared.trees import inexact, walk_tensors

FEW_ROWS = 8  # below, elements are mixed in place of rows
FACTORS = (0.9, 1.0)
PERIOD = 16381  # of the factors; a prime: no column of a matrix meets only a few of them
LONGEST = 1 << 22  # values whose factors are kept as they stand beside them
TOUCHED = 1 / 16  # of each tensor, where values are renewed in part
SAMPLES = 1024  # values of a tensor that are looked at, where not all are


@dataclass(frozen=True, kw_only=True)
class Mix:
    """What is done to the tensors of one draw. The stretch from `begin` to `end`, as shares of a
    tensor's length, gets the values that the draw of `seed` has there. Then the first value is
    multiplied by factor number `factors`, the second by the next, and so on (None: none is).
    `grads` is combined with the seed of the outputs' gradients, so that these are new too."""

    seed: int
    begin: float
    end: float
    factors: int | None = None
    grads: int = 0


@dataclass(frozen=True, kw_only=True)
class Renewal:
    """How timed calls may get new values: `mix`: as mixtures of two draws; `touch`: in part,
    which needs mixtures and a function that leaves its inputs as they are. `seeded`: calls by the
    judge's clock draw random numbers of their own, each from the seed of its first draw.
    `restored`: buffers, which calls go by and change, are put back before each of them. `mutates`:
    calls change their inputs, and what they leave there is looked at. `singly`: modes of which no
    two calls can be under way at once."""

    mix: bool = True
    touch: bool = False
    seeded: bool = False
    restored: bool = False
    mutates: bool = False
    singly: tuple[str, ...] = ()


def mixes(seed: int, seeds: list[int], count: int, *, mix: bool) -> list[tuple[int, Mix]]:
    """For each of `count` calls, the number of the draw of `seeds` that gives its values, and
    what of another is mixed in and which factors: without `mix`, nothing and none."""
    source = random.Random(seed)
    chosen = []
    for _ in range(count):
        first, second = source.sample(range(len(seeds)), 2)
        begin = source.uniform(0, 0.75)
        end = begin + (source.uniform(0.25, 1 - begin) if mix else 0.0)
        factors = source.randrange(PERIOD) if mix else None
        grads, second_seed = source.getrandbits(48), seeds[second]
        mixed = Mix(seed=second_seed, begin=begin, end=end, factors=factors, grads=grads)
        chosen.append((first, mixed))
    return chosen


def whole(seed: int, seeds: list[int], *, mix: bool) -> list[tuple[int, Mix]]:
    """For each of `seeds` a call that gets its draw alone, and no other call anything of it; with
    factors, as values of `mixes` have them."""
    source = random.Random(seed)
    chosen = []
    for number, own in enumerate(seeds):
        factors = source.randrange(PERIOD) if mix else None
        grads = source.getrandbits(48)
        alone = Mix(seed=own, begin=0.0, end=0.0, factors=factors, grads=grads)
        chosen.append((number, alone))
    return chosen


def touches(seed: int, before: list[tuple[int, Mix]], seeds: list[int]) -> list[tuple[int, Mix]]:
    """For each call of `before` (as `mixes` gives it) the same draw, factors and gradients, with
    a short stretch of another mixed in: new values for a tenth of the price."""
    source = random.Random(seed)
    chosen = []
    for first, was in before:
        second = source.randrange(len(seeds) - 1)
        second += second >= first
        begin = source.uniform(0, 1 - TOUCHED)
        end = begin + TOUCHED
        chosen.append((first, replace(was, seed=seeds[second], begin=begin, end=end)))
    return chosen


Span = tuple[int, int]  # which values of a tensor, flat: from the first on, up to the second


def stretch(tensor: torch.Tensor, mix: Mix) -> torch.Tensor:
    """The part of `tensor` that `mix` replaces, as a view; empty for integers and single values."""
    if not takes_turns(tensor):
        return tensor.new_empty(0)
    return _cut(tensor, stretch_of(tensor, mix))


def takes_turns(tensor: torch.Tensor) -> bool:
    """Whether draws are mixed in it, and its values get factors."""
    return tensor.ndim > 0 and tensor.numel() > 0 and inexact(tensor)


def stretch_of(tensor: torch.Tensor, mix: Mix) -> Span:
    """Which values of what `takes_turns` are those of `stretch`."""
    rows = tensor.numel() if _by_element(tensor) else tensor.shape[0]
    first, last = (round(at * rows) for at in (mix.begin, mix.end))
    if mix.end > mix.begin:  # something, however short
        first = min(first, rows - 1)
        last = max(last, first + 1)
    each = tensor.numel() // rows
    return first * each, last * each


def _by_element(tensor: torch.Tensor) -> bool:
    return tensor.shape[0] < FEW_ROWS and tensor.is_contiguous()


def _cut(tensor: torch.Tensor, span: Span) -> torch.Tensor:
    """Values of `tensor`, whole rows where it has enough of them, as a view."""
    rows = tensor.view(-1) if _by_element(tensor) else tensor
    each = tensor.numel() // rows.shape[0]
    return rows.narrow(0, span[0] // each, (span[1] - span[0]) // each)


def put(source: torch.Tensor, mix: Mix, into: torch.Tensor, *, at: int = 0) -> None:
    """Write the values of `source`, times their factors, over `into`, of the same shape: a tensor
    of inputs, whose first value is number `at` of a longer one."""
    if mix.factors is None or not source.ndim or not inexact(source):
        into.copy_(source)
        return
    first, count = (mix.factors + at) % PERIOD, source.numel()
    table = factors(source.dtype, source.device, min(count, LONGEST))
    if count <= LONGEST:  # one kernel, not two: what it costs the host counts
        torch.mul(source, table.narrow(0, first, count).view_as(source), out=into)
        return
    dense = source.contiguous()
    target = into if into.is_contiguous() else torch.empty_like(dense)
    values, out, turn = dense.view(-1), target.view(-1), table[first : first + PERIOD]
    whole = count - count % PERIOD
    shape = (-1, PERIOD)
    torch.mul(values[:whole].view(shape), turn, out=out[:whole].view(shape))
    torch.mul(values[whole:], turn[: count - whole], out=out[whole:])
    if target is not into:
        into.copy_(target)


def put_stretch(source: torch.Tensor, mix: Mix, into: torch.Tensor) -> None:
    """The same for the stretch of `mix` alone."""
    if takes_turns(source):
        _put_span(source, mix, into, stretch_of(source, mix))


def put_around(source: torch.Tensor, mix: Mix, into: torch.Tensor) -> None:
    """The same for all but the stretch."""
    if not takes_turns(source):
        put(source, mix, into=into)
        return
    first, last = stretch_of(source, mix)
    _put_span(source, mix, into, (0, first))
    _put_span(source, mix, into, (last, source.numel()))


def _put_span(source: torch.Tensor, mix: Mix, into: torch.Tensor, span: Span) -> None:
    if span[1] > span[0]:
        put(_cut(source, span), mix, into=_cut(into, span), at=span[0])


def factors(dtype: torch.dtype, device: torch.device, count: int) -> torch.Tensor:
    """The table of factors again and again, of at least `PERIOD` + `count` values: from each of
    its first `PERIOD` on, `count` follow. Real, where `dtype` is complex."""
    turns = 1 << max(1, math.ceil(count / PERIOD)).bit_length()  # few sizes, each kept
    return _factors(dtype.to_real(), device, turns)


@functools.lru_cache(maxsize=64)
def _factors(dtype: torch.dtype, device: torch.device, turns: int) -> torch.Tensor:
    """Made on the CPU, so the same on every device; that it is known helps nobody, for each value
    has to be read to be multiplied."""
    source = torch.Generator().manual_seed(0)
    least, most = FACTORS
    table = least + (most - least) * torch.rand(PERIOD, generator=source)
    return table.to(device=device, dtype=dtype).repeat(turns)


def forget() -> None:
    """Let go of the tables that are kept: they are not what a model takes of a device's memory."""
    _factors.cache_clear()
    _places.cache_clear()


def mix_in(inputs: list[Any], others: list[Any], mix: Mix) -> None:
    """Put the stretch of `others` into `inputs`, in place, and apply the factors."""
    theirs = dict(walk_tensors(others, ""))
    for path, tensor in walk_tensors(inputs, ""):
        stretch(tensor, mix).copy_(stretch(theirs[path], mix))
        put(tensor, mix, into=tensor)


def sample(tensor: torch.Tensor, seed: int) -> torch.Tensor:
    """Values at `SAMPLES` places, or as many as there are, that follow from `seed`; flat."""
    return torch.take(tensor, _places(tensor.numel(), seed, tensor.device))


@functools.lru_cache(maxsize=64)
def _places(count: int, seed: int, device: torch.device) -> torch.Tensor:
    """Which of `count` values are sampled: int64, of the shape [min(count, SAMPLES)]. The same on
    every device; kept, for a copy to a device would make the host wait in every call."""
    if count <= SAMPLES:
        return torch.arange(count, device=device)
    source = torch.Generator().manual_seed(seed)
    return torch.randint(count, (SAMPLES,), generator=source).to(device)
