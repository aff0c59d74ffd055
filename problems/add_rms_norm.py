"""A residual added, then RMS normalisation: what stands between the layers of a transformer.

    total = x + residual                                                shape (ROWS, COLUMNS)
    output = (weight * total / sqrt(mean(total^2) + 1e-6), total)

Hard: two results of one pass. The sum is the next residual, so it must be written, but not read
back for the normalisation. In backward both outputs have a gradient, and x and residual share one.

Limit, at size `full` in float32 (an input is 512 MiB):
    forward    reads both inputs, writes both outputs                 2 GiB
    backward   reads total and both gradients, writes one gradient    2 GiB
The limit that is reported counts a gradient for each of the inputs: they may be one tensor.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 32768
COLUMNS = 4096

SIZES = {
    "smoke": {"ROWS": 128, "COLUMNS": 1024},
    "odd": {"ROWS": 127, "COLUMNS": 1031},  # odd rows: vector loads meet tails and misalignment
}


class Model(nn.Module):
    """The sum of x and residual, normalised and as it is."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(columns).uniform_(0.5, 1.5))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = x + residual
        return F.rms_norm(total, self.weight.shape, self.weight, eps=1e-6), total


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(x, residual), each (ROWS, COLUMNS). Rows are of sizes from 0.003 to 3: for the small ones
    the epsilon shows."""
    size = log_uniform(0.003, 3.0, ROWS, 1)
    return [torch.randn(ROWS, COLUMNS) * size, torch.randn(ROWS, COLUMNS) * size]


def get_init_inputs() -> list[object]:
    """The arguments of the constructor: columns."""
    return [COLUMNS]
