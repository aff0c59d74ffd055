"""The running sum along rows, and its gradient, a running sum from the end.

    output[i] = x[0] + ... + x[i]                                       shape (ROWS, COLUMNS)
    d output / d x [i] = grad_output[i] + ... + grad_output[last]

Hard: each element depends on all before it. A row has to go through one block, or through many
that hand their totals on, and still be read and written once. A long sum loses digits unless it is
made in pieces. Eager PyTorch turns the gradient round with two copies for the backward.

Limit, at size `full` in float32 (x is 1 GiB):
    forward    reads x, writes the output                             2 GiB
    backward   reads grad_output, writes the gradient                 2 GiB
"""

import torch
import torch.nn as nn

ROWS = 16384
COLUMNS = 16384

SIZES = {
    "smoke": {"ROWS": 64, "COLUMNS": 2048},
    "odd": {"ROWS": 127, "COLUMNS": 1031},  # odd rows: vector loads meet tails and misalignment
    "huge": {"ROWS": 65537, "COLUMNS": 32771},  # over 2^31 elements: 32-bit indices overflow
}


class Model(nn.Module):
    """`torch.cumsum` along the last dimension."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x, dim=-1)


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(x,), shape (ROWS, COLUMNS). Each row has its own size, and its own small mean, which
    grows until it outweighs the rest. Float16 holds the sums of a row of size `full`."""
    x = torch.randn(ROWS, COLUMNS)
    x += 0.2 * torch.randn(ROWS, 1)
    x *= log_uniform(0.5, 2.0, ROWS, 1)
    return [x]


def get_init_inputs() -> list[object]:
    """The model takes no arguments."""
    return []
