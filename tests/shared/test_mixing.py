"""Mixtures of two draws: every value from its own place, in step, and never the same twice."""

from __future__ import annotations

import pytest
import torch

from harness.shared import mixing
from harness.shared.draws import Draw
from harness.shared.mixing import (
    FEW_ROWS,
    PERIOD,
    SAMPLES,
    Mix,
    mix_in,
    mixes,
    put,
    put_around,
    put_stretch,
    sample,
    stretch,
    touches,
)
from harness.shared.problem import Instance

PAIRS = """
import torch


class Model(torch.nn.Module):
    def forward(self, x, target, order, scale):
        return x


def get_inputs():
    kind = float(torch.rand(()))
    x = torch.full((16, 3), kind)
    return [x, torch.full((16,), kind), torch.randperm(16), torch.full((), kind)]
"""


def made(draw: Draw) -> list[torch.Tensor]:
    cpu = torch.device("cpu")
    instance = Instance(source=PAIRS, path="p", size="full", dtype=torch.float32, device=cpu)
    return instance.inputs(draw)


def test_rows_of_two_draws_stand_side_by_side_in_step_and_integers_stay_whole() -> None:
    one, other = made(Draw(seed=1)), made(Draw(seed=2))
    x, target, order, scale = made(Draw(seed=1, mix=Mix(seed=2, begin=0.25, end=0.75)))
    from_other = (x == other[0]).all(dim=1)
    assert from_other.tolist() == [4 <= row < 12 for row in range(16)]
    assert torch.equal(target == other[1], from_other)
    assert torch.equal(x[~from_other], one[0][~from_other])
    assert torch.equal(order, one[2])
    assert torch.equal(scale, one[3])


def test_an_empty_mixture_changes_nothing() -> None:
    draw = Draw(seed=1, mix=Mix(seed=2, begin=0.5, end=0.5))
    assert all(torch.equal(a, b) for a, b in zip(made(draw), made(Draw(seed=1)), strict=True))


def test_factors_make_every_row_another_one_but_for_integers_and_single_values() -> None:
    plain = made(Draw(seed=1, mix=Mix(seed=2, begin=0.25, end=0.75)))
    scaled = made(Draw(seed=1, mix=Mix(seed=2, begin=0.25, end=0.75, factors=5)))
    for one, other in zip(plain[:2], scaled[:2], strict=True):
        ratios = other / one
        assert ratios.min() >= 0.9 - 1e-6
        assert ratios.max() <= 1 + 1e-6
        assert len(ratios.unique()) > ratios.numel() // 2, "each value has its own"
    for one, other in zip(plain[2:], scaled[2:], strict=True):
        assert torch.equal(one, other)


def test_no_two_mixtures_have_the_same_factors() -> None:
    chosen = [mix for seed in range(20) for _, mix in mixes(seed, [5, 6, 7], 4, mix=True)]
    assert len({(mix.factors, mix.begin) for mix in chosen}) == len(chosen)
    assert {mix.factors for _, mix in mixes(1, [5, 6], 4, mix=False)} == {None}


def test_a_row_of_a_mixture_is_no_multiple_of_that_of_another() -> None:
    draw = torch.rand(5, 100) + 1
    one, other = torch.empty(5, 100), torch.empty(5, 100)
    put(draw, Mix(seed=2, begin=0, end=0, factors=1), into=one)
    put(draw, Mix(seed=2, begin=0, end=0, factors=9), into=other)
    for ratios in (*(one / other), *(one / other).t()):
        assert ratios.max() - ratios.min() > 0.01


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize(
    "shape", [(1,), (PERIOD,), (3, PERIOD), (12, 5), (2, 3 * PERIOD + 7), (9, 4001)]
)
@pytest.mark.parametrize("longest", [mixing.LONGEST, 0], ids=["short", "long"])
def test_parts_get_the_factors_that_the_whole_gives_them(
    shape: tuple[int, ...], dtype: torch.dtype, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, mix = torch.randn(shape, dtype=dtype), Mix(seed=2, begin=0.3, end=0.9, factors=16000)
    whole, part, known = (torch.zeros_like(source) for _ in range(3))
    put(source, mix, into=known)
    monkeypatch.setattr(mixing, "LONGEST", longest)
    put(source, mix, into=whole)
    assert torch.equal(whole, known), "however long"
    put_stretch(source, mix, into=part)
    assert torch.equal(stretch(part, mix), stretch(whole, mix))
    assert torch.count_nonzero(part) == torch.count_nonzero(stretch(part, mix))
    put_around(source, mix, into=part)
    assert torch.equal(part, whole)
    turned = torch.empty_like(source.t().contiguous()).t() if source.ndim == 2 else part
    put(source, mix, into=turned)
    assert torch.equal(turned, whole), "wherever it lies"


def test_few_rows_are_mixed_by_element_and_views_by_row() -> None:
    mix = Mix(seed=2, begin=0.25, end=0.75)
    assert stretch(torch.zeros(2, 8), mix).shape == (8,)
    assert stretch(torch.zeros(8, 4).t(), mix).shape == (2, 8), "not contiguous: by row"
    assert stretch(torch.zeros(()), mix).numel() == 0
    assert stretch(torch.zeros(0, 4), mix).numel() == 0
    assert stretch(torch.zeros(16, dtype=torch.int64), mix).numel() == 0
    inputs = [torch.zeros(2, 8)]
    mix_in(inputs, [torch.ones(2, 8)], mix)
    assert inputs[0].sum() == 8


def test_mixtures_follow_from_the_seed_and_are_of_two_draws() -> None:
    seeds = [10, 11, 12]
    chosen = mixes(5, seeds, 40, mix=True)
    assert chosen == mixes(5, seeds, 40, mix=True)
    assert chosen != mixes(6, seeds, 40, mix=True)
    assert all(seeds[first] != mix.seed for first, mix in chosen)
    assert all(round(mix.end - mix.begin, 9) >= 0.25 for _, mix in chosen)
    assert all(mix.end <= 1 for _, mix in chosen)
    assert len(set(chosen)) == len(chosen)


def test_without_mixing_whole_draws_take_turns() -> None:
    assert all(mix.begin == mix.end for _, mix in mixes(5, [1, 2], 9, mix=False))


@pytest.mark.parametrize("shape", [(), (5,), (40, 50), (3, 2000)])
def test_samples_are_values_at_places_that_follow_from_the_seed(shape: tuple[int, ...]) -> None:
    tensor = torch.randn(shape)
    got = sample(tensor, 1)
    assert torch.equal(got, sample(tensor.clone(), 1))
    assert got.numel() == min(tensor.numel(), SAMPLES)
    assert set(got.tolist()) <= set(tensor.reshape(-1).tolist())
    if tensor.numel() > SAMPLES:
        assert not torch.equal(got, sample(tensor, 2))


def test_a_touch_keeps_the_draw_and_mixes_in_a_short_stretch_of_another() -> None:
    seeds = [11, 12, 13]
    before = mixes(5, seeds, 40, mix=True)
    chosen = touches(6, before, seeds)
    assert chosen == touches(6, before, seeds) != touches(7, before, seeds)
    assert [first for first, _ in chosen] == [first for first, _ in before]
    kept = [(mix.factors, mix.grads) for _, mix in chosen]
    assert kept == [(mix.factors, mix.grads) for _, mix in before]
    assert len(set(kept)) == len(kept)
    tensor = torch.zeros(FEW_ROWS, 4)
    for first, mix in chosen:
        assert mix.seed in seeds
        assert mix.seed != seeds[first]
        assert len(stretch(tensor, mix)) == 1
