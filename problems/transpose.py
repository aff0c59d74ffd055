"""The last two dimensions exchanged in memory, and the gradient, exchanged back.

    output[b, j, i] = x[b, i, j]                             shape (BATCH, COLUMNS, ROWS)

Hard: nothing is computed. What is read along a row is written along a column: one of the two is
scattered, unless tiles are turned round in shared memory, without conflicts of its banks.

Limit, at size `full` in float32 (x is 1 GiB):
    forward    reads x, writes the output                             2 GiB
    backward   reads grad_output, writes the gradient                 2 GiB
"""

import torch
import torch.nn as nn

BATCH = 16
ROWS = 4096
COLUMNS = 4096

SIZES = {
    "smoke": {"BATCH": 4, "ROWS": 128, "COLUMNS": 256},
    "odd": {"BATCH": 3, "ROWS": 67, "COLUMNS": 517},
    "huge": {"BATCH": 3, "ROWS": 21841, "COLUMNS": 32779},  # over 2^31 elements
}


class Model(nn.Module):
    """`transpose`, contiguous again."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2).contiguous()


def get_inputs() -> list[torch.Tensor]:
    """(x,), shape (BATCH, ROWS, COLUMNS)."""
    return [torch.randn(BATCH, ROWS, COLUMNS)]


def get_init_inputs() -> list[object]:
    """The model takes no arguments."""
    return []
