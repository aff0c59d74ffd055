"""Hinge loss of predictions against labels of -1 and 1, averaged, and its gradient.

    output = mean(max(1 - predictions * targets, 0))                                shape []
    d output / d predictions = -targets / N where 1 - predictions * targets > 0, else 0

At the kink itself the gradient is 0, as of `relu`; as of `clamp` it depends on PyTorch's version.

Hard: bandwidth, with a branch that neighbouring elements take differently, and 2^28 terms to sum
without losing digits. Eager PyTorch makes four passes and keeps an intermediate of 1 GiB.

Limit, at size `full` in float32 (an input is 1 GiB):
    forward    reads both inputs                                      2 GiB
    backward   reads both inputs, writes one gradient                 3 GiB
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 16384
COLUMNS = 16384

SIZES = {
    "smoke": {"ROWS": 256, "COLUMNS": 512},
    "odd": {"ROWS": 509, "COLUMNS": 517},  # odd rows: vector loads meet tails and misalignment
    "huge": {"ROWS": 65537, "COLUMNS": 32771},  # over 2^31 elements: 32-bit indices overflow
}

GRAD_INPUTS = ("predictions",)


class Model(nn.Module):
    """The mean of the hinge loss."""

    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return torch.mean(F.relu(1 - predictions * targets))


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(predictions, targets), each (ROWS, COLUMNS); targets are -1 or 1.

    Predictions lean towards their target, by an amount of each draw and more so in later rows:
    if they did not, any targets would give the same loss, and half of the rows that of all.
    """
    targets = torch.randint(2, (ROWS, COLUMNS), dtype=torch.float32)
    targets *= 2
    targets -= 1
    predictions = torch.randn(ROWS, COLUMNS)
    predictions *= log_uniform(0.5, 3.0)
    predictions += targets * (log_uniform(0.2, 1.0) * torch.linspace(0.2, 1.0, ROWS)[:, None])
    return [predictions, targets]


def get_init_inputs() -> list[object]:
    """The model takes no arguments."""
    return []
