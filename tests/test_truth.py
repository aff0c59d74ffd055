"""The truth that benchmarks hold speedups against, found where every cost is known."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from benchmarks.truth import NULL, Truth
from harness.shared.problem import Instance
from harness.worker.calls import CallSet, Side
from harness.worker.meters import Unit
from harness.worker.timing import Timer

SOURCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return 2 * x


def get_inputs():
    return [torch.randn(4)]
"""


class Known:
    """A meter by which each call takes its side's time, the first behind the filling of the caches
    `cold_ms` more, the filling `flush_ms`, and the clocks `pair_ms`; all with a little noise."""

    flush_ms, pair_ms, cold_ms = 0.035, 0.001, 0.0007

    def __init__(self, reference_ms: float, candidate_ms: float) -> None:
        self.costs = {"reference": reference_ms, "candidate": candidate_ms, NULL.name: 0.0018}
        self.spent_ms = 0.0
        self.noise = random.Random(1)

    def flush(self) -> None:
        self.spent_ms += self.flush_ms + self.cold_ms

    def unit(self, side: Any, mode: str, sets: list[CallSet]) -> Unit:
        prepared = [side.prepare(mode, one) for one in sets]
        self.spent_ms = self.pair_ms + self.noise.gauss(0, 1e-4)
        if isinstance(side, Side):
            self.flush()
            self.spent_ms -= self.flush_ms  # before the clock starts
        outputs = [side.run(mode, s, p) for s, p in zip(sets, prepared, strict=True)]
        return Unit(ms=self.spent_ms + self.costs[side.name] * len(sets), outputs=outputs)


@pytest.mark.parametrize("ratio", [1.02, 1.1, 2.0])
@pytest.mark.parametrize("ms", [0.005, 0.2, 10.0])
def test_neither_the_clocks_nor_the_caches_are_in_the_truth(ms: float, ratio: float) -> None:
    instance = Instance(
        source=SOURCE, path="p.py", size="full", dtype=torch.float32, device=torch.device("cpu")
    )
    timer = Timer(
        instance=instance,
        reference=Side("reference", instance.model(1)),
        candidate=Side("candidate", instance.model(1)),
        meter=Known(ratio * ms, ms),
    )
    truth = Truth(timer=timer, mode="forward")
    for _ in range(4):
        truth.look()
    assert truth.ratio == pytest.approx(ratio, rel=5e-5)
    assert 0 < truth.error < 0.002
    calls = len(timer.sets)
    assert truth.error >= (ratio - 1) / ratio * 0.25e-3 / calls / ms  # what a batch tells
