"""Peak memory of a call on a CPU: inputs, parameters, and what is alive at once in between."""

from __future__ import annotations

import pytest
import torch

from harness.shared.problem import Instance
from harness.worker import memory
from harness.worker.calls import Side

SOURCE = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1 << 18))

    def forward(self, x):
        return {body}


def get_inputs():
    return [torch.randn(1 << 18)]
"""


def used_mib(body: str, mode: str = "forward") -> float:
    """Peak in units of one MiB: input and parameter are one each."""
    instance = Instance(
        source=SOURCE.format(body=body),
        path="p.py",
        size="full",
        dtype=torch.float32,
        device=torch.device("cpu"),
    )
    return memory.peak(instance, Side("candidate", instance.model(0)), mode, 1, 0).used_mib


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("x.sum()", 2),  # input and parameter
        ("x + 1", 3),  # and the output
        ("(x + 1) + 1", 4),  # and a temporary beside it
        ("((x + 1) + 1) + 1", 4),  # which is freed before the next
        ("[x + 1, x + 2, x + 3]", 5),
        ("torch.empty(1 << 20).sum()", 6),  # a workspace of four
    ],
)
def test_a_peak_is_what_is_alive_at_once(body: str, wanted: int) -> None:
    assert used_mib(body) == pytest.approx(wanted, abs=0.05)


def test_training_holds_gradients_and_what_is_saved_for_them() -> None:
    # Input, parameter, output and two gradients; a product saves only its inputs.
    assert used_mib("x * self.weight") == pytest.approx(3, abs=0.05)
    assert used_mib("x * self.weight", "forward_backward") == pytest.approx(5, abs=0.05)
    # A chain of exponentials saves each of its outputs.
    chain = used_mib("(x * self.weight).exp().exp()", "forward_backward")
    assert chain == pytest.approx(6, abs=0.05)
