"""RMS normalisation over rows with a gain, and both gradients.

    output = weight * x / sqrt(mean(x^2) + 1e-6)                        shape (ROWS, COLUMNS)

Hard: as layer normalisation, with one sum a row: x is read once and stays in registers. Backward
needs a sum a row for the gradient of x and, over all rows, a sum a column for that of weight.
Eager PyTorch makes several passes where it has no fused kernel.

Limit, at size `full` in float32 (x is 1 GiB):
    forward    reads x, writes the output                             2 GiB
    backward   reads x and grad_output, writes the gradient of x      3 GiB
"""

import torch
import torch.nn as nn

ROWS = 65536
COLUMNS = 4096

SIZES = {
    "smoke": {"ROWS": 128, "COLUMNS": 1024},
    "odd": {"ROWS": 127, "COLUMNS": 1031},  # odd rows: vector loads meet tails and misalignment
}


class Model(nn.Module):
    """`nn.RMSNorm` over the last dimension, with a gain that is not 1."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(columns, eps=1e-6)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(x,), shape (ROWS, COLUMNS). Rows are of sizes from 0.003 to 3: for the small ones the
    epsilon shows."""
    x = torch.randn(ROWS, COLUMNS)
    x *= log_uniform(0.003, 3.0, ROWS, 1)
    return [x]


def get_init_inputs() -> list[object]:
    """The arguments of the constructor: columns."""
    return [COLUMNS]
