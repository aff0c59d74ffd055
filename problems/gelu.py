"""GELU, the exact one with erf, and its gradient.

    output = x / 2 * (1 + erf(x / sqrt(2)))                             shape (ROWS, COLUMNS)
    d output / d x = (1 + erf(x / sqrt(2))) / 2 + x * exp(-x^2 / 2) / sqrt(2 pi)

Hard: erf takes some twenty instructions, and backward an exponential beside it, while the memory
delivers an element every two or three cycles. For x far below 0 the result is a small number that
1 + erf has no digits for; the tolerances allow for that. Eager PyTorch makes one pass each way.

Limit, at size `full` in float32 (x is 1 GiB):
    forward    reads x, writes the output                             2 GiB
    backward   reads x and grad_output, writes the gradient           3 GiB
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


class Model(nn.Module):
    """`gelu` with approximate="none"."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x)


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(x,), shape (ROWS, COLUMNS). Rows are of sizes from 0.2 to 5: near 0 and in both tails."""
    x = torch.randn(ROWS, COLUMNS)
    x *= log_uniform(0.2, 5.0, ROWS, 1)
    return [x]


def get_init_inputs() -> list[object]:
    """The model takes no arguments."""
    return []
