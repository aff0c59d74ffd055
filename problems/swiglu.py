"""SwiGLU: one half of each row, through SiLU, gates the other half; and its gradient.

    gate, up = the halves of x                                   each (ROWS, COLUMNS)
    output = gate * sigmoid(gate) * up                                  shape (ROWS, COLUMNS)

Hard: nothing but bandwidth, with two streams that lie half a row apart. The gradients of both
halves need the same sigmoid, and go into one tensor. Eager PyTorch keeps SiLU's result and the
gradients of the halves, and joins those with a copy.

Limit, at size `full` in float32 (x is 1.34 GiB, the output half of that):
    forward    reads x, writes the output                             2.0 GiB
    backward   reads x and grad_output, writes the gradient of x      3.4 GiB
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 16384
COLUMNS = 11008

SIZES = {
    "smoke": {"ROWS": 128, "COLUMNS": 512},
    "odd": {"ROWS": 127, "COLUMNS": 1031},  # the second half of a row is misaligned
}


class Model(nn.Module):
    """silu(gate) * up, for gate and up side by side in x."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = x.chunk(2, dim=-1)
        return F.silu(gate) * up


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(x,), shape (ROWS, 2 * COLUMNS). Each row has its own size, from 0.5 to 5."""
    x = torch.randn(ROWS, 2 * COLUMNS)
    x *= log_uniform(0.5, 5.0, ROWS, 1)
    return [x]


def get_init_inputs() -> list[object]:
    """The model takes no arguments."""
    return []
