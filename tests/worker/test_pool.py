"""What a refill writes is what the judge draws, however many sets are written at once."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from harness.shared.draws import Draw
from harness.shared.mixing import mixes, touches
from harness.shared.problem import Instance
from harness.shared.trees import map_tensors, walk_tensors
from harness.worker import pool
from harness.worker.pool import Pool

MIXED = """
import torch


class Model(torch.nn.Module):
    def forward(self, x, turned, few, order, scale, nothing):
        return x


def get_inputs():
    return [
        torch.randn(40, 200),
        torch.randn(30, 20).t(),
        {"few": torch.randn(2, 4000, dtype=torch.bfloat16), "complex": torch.randn(9) * 1j},
        torch.randperm(50),
        torch.randn(()),
        torch.randn(0, 4),
    ]
"""
SEEDS = [3, 4, 5, 6, 7, 8, 9]


def made() -> Instance:
    cpu = torch.device("cpu")
    return Instance(source=MIXED, path="p", size="full", dtype=torch.float32, device=cpu)


def served(instance: Instance, sets: int) -> tuple[Pool, list[list[Any]]]:
    """A pool, and the inputs that it fills, none of which hold anything of use."""
    drawn = Pool(instance, SEEDS[: sets + 1])
    inputs = [[map_tensors(torch.zeros_like, v) for v in drawn.values(0)] for _ in range(sets)]
    drawn.serve(inputs)
    return drawn, inputs


def same(inputs: list[Any], expected: list[Any]) -> bool:
    pairs = zip(walk_tensors(inputs, ""), walk_tensors(expected, ""), strict=True)
    return all(torch.equal(one, other) for (_, one), (_, other) in pairs)


@pytest.mark.parametrize("mix", [True, False])
@pytest.mark.parametrize("sets", [1, pool.MANY_SETS - 1, pool.MANY_SETS, 6])
def test_each_set_gets_the_values_that_the_judge_draws_unseen_by_counters(
    sets: int, mix: bool
) -> None:
    instance = made()
    drawn, inputs = served(instance, sets)
    versions = [t._version for _, t in walk_tensors(inputs, "")]
    for seed in range(4):
        held = mixes(seed, drawn.seeds, sets, mix=mix)
        drawn.fill(held)
        for values, (first, mixture) in zip(inputs, held, strict=True):
            assert same(values, instance.inputs(Draw(seed=drawn.seeds[first], mix=mixture)))
    assert versions == [t._version for _, t in walk_tensors(inputs, "")]


@pytest.mark.parametrize("sets", [2, 6])
def test_a_touch_leaves_what_the_judge_draws(sets: int) -> None:
    instance = made()
    drawn, inputs = served(instance, sets)
    held = mixes(1, drawn.seeds, sets, mix=True)
    drawn.fill(held)
    for seed in range(4):
        before, held = held, touches(seed, held, drawn.seeds)
        drawn.touch(before, held)
        for values, (first, mixture) in zip(inputs, held, strict=True):
            assert same(values, instance.inputs(Draw(seed=drawn.seeds[first], mix=mixture)))


def test_large_and_oddly_laid_out_tensors_are_written_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn, _ = served(made(), 4)
    assert [sorted(tensors) for tensors in drawn._apart] == [["[1]"]] * 4
    monkeypatch.setattr(pool, "TOGETHER", {"cpu": 1000})
    drawn, _ = served(made(), 4)
    assert "[0]" in drawn._apart[0]


def test_draws_that_are_not_kept_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "POOL_SHARE", 0)
    instance = made()
    drawn, inputs = served(instance, 4)
    held = mixes(1, drawn.seeds, 4, mix=True)
    drawn.fill(held)
    for values, (first, mixture) in zip(inputs, held, strict=True):
        assert same(values, instance.inputs(Draw(seed=drawn.seeds[first], mix=mixture)))
