"""Softmax over rows, and its gradient.

    output = exp(x - max(x)) / sum(exp(x - max(x)))                     shape (ROWS, COLUMNS)
    d output / d x = output * (grad_output - sum(grad_output * output))

Hard: a row has to be seen whole, for its maximum and its sum, before one element can be written;
who reads it twice loses a third. 64 KiB a row fit the registers of a block, but only just.

Limit, at size `full` in float32 (x is 1 GiB):
    forward    reads x, writes the output                             2 GiB
    backward   reads output and its gradient, writes one gradient     3 GiB
"""

import torch
import torch.nn as nn

ROWS = 16384
COLUMNS = 16384

SIZES = {
    "smoke": {"ROWS": 64, "COLUMNS": 2048},
    "odd": {"ROWS": 67, "COLUMNS": 1031},  # odd rows: vector loads meet tails and misalignment
    "huge": {"ROWS": 65537, "COLUMNS": 32771},  # over 2^31 elements: 32-bit indices overflow
}


class Model(nn.Module):
    """Softmax along the last dimension."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=-1)


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(x,), shape (ROWS, COLUMNS). Each row is as sharp as it likes and has its own offset, so
    that a maximum that is left out shows."""
    x = torch.randn(ROWS, COLUMNS)
    x *= log_uniform(0.5, 4.0, ROWS, 1)
    x += 30 * torch.randn(ROWS, 1)
    return [x]


def get_init_inputs() -> list[object]:
    """The model takes no arguments."""
    return []
