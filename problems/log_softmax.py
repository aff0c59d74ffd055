"""Log-softmax over rows of a vocabulary's width, and its gradient.

    output = x - max(x) - log(sum(exp(x - max(x))))                     shape (ROWS, COLUMNS)
    d output / d x = grad_output - exp(output) * sum(grad_output)

Hard: 128 KiB a row are more than the registers of one block. One pass needs several blocks a
row (a cluster that shares its sums) or a second read that hits the cache.

Limit, at size `full` in float32 (x is 1 GiB):
    forward    reads x, writes the output                             2 GiB
    backward   reads output and its gradient, writes one gradient     3 GiB
"""

import torch
import torch.nn as nn

ROWS = 8192
COLUMNS = 32768

SIZES = {
    "smoke": {"ROWS": 32, "COLUMNS": 4096},
    "odd": {"ROWS": 67, "COLUMNS": 1031},  # odd rows: vector loads meet tails and misalignment
    "huge": {"ROWS": 32771, "COLUMNS": 65537},  # over 2^31 elements: 32-bit indices overflow
}


class Model(nn.Module):
    """Log-softmax along the last dimension."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(x, dim=-1)


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(x,), shape (ROWS, COLUMNS). Each row has its own sharpness and offset; the offset does
    not change the result, unless the maximum is left out and the exponentials overflow."""
    x = torch.randn(ROWS, COLUMNS)
    x *= log_uniform(0.5, 4.0, ROWS, 1)
    x += 30 * torch.randn(ROWS, 1)
    return [x]


def get_init_inputs() -> list[object]:
    """The model takes no arguments."""
    return []
