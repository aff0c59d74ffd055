"""Layer normalisation over rows with gain and bias, and its three gradients.

    xhat = (x - mean(x)) / sqrt(var(x) + 1e-5)                          shape (ROWS, COLUMNS)
    output = weight * xhat + bias

Hard: forward is a row in registers. Backward sums along both dimensions at once: two sums a row
for the gradient of x, and two sums a column over all rows for those of weight and bias. Without
atomics, in a fixed order, those need partial sums and a second kernel.

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
    """`nn.LayerNorm` over the last dimension, with weights that are not 1 and 0."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(columns)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias, std=0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(x,), shape (ROWS, COLUMNS). Each row has its own spread, some so small that the epsilon
    shows, and its own mean, which a variance by differences of large sums would not survive."""
    x = torch.randn(ROWS, COLUMNS)
    x *= log_uniform(0.01, 3.0, ROWS, 1)
    x += torch.randn(ROWS, 1)
    return [x]


def get_init_inputs() -> list[object]:
    """The arguments of the constructor: columns."""
    return [COLUMNS]
