"""A batch of matrix products, and both gradients.

    output[i] = a[i] @ b[i]                                 shape (BATCH, ROWS, COLUMNS)

Hard: FLOPs, in products so small that one alone does not fill a GPU: all of the batch has to go
in one launch, with tiles that fit the sizes. Backward is two products more, each with an operand
transposed. Float32 means float32: TF32 fails the error model.

Limit, at size `full`: 137 GFLOP forward, 275 GFLOP backward; in float32 without tensor cores 2.1 ms
and 4.1 ms at 67 TFLOP/s. Bytes: 1 GiB forward (a third of a millisecond), 2 GiB backward.
"""

import torch
import torch.nn as nn

BATCH = 128
ROWS = 1024
INNER = 512
COLUMNS = 1024

SIZES = {
    "smoke": {"BATCH": 4, "ROWS": 128, "INNER": 128, "COLUMNS": 128},
    "odd": {"BATCH": 7, "ROWS": 65, "INNER": 67, "COLUMNS": 129},
}


class Model(nn.Module):
    """`torch.bmm`."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.bmm(a, b)


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(a, b), shapes (BATCH, ROWS, INNER) and (BATCH, INNER, COLUMNS); rows of a differ in size."""
    a = torch.randn(BATCH, ROWS, INNER) * log_uniform(0.5, 2.0, BATCH, ROWS, 1)
    return [a, torch.randn(BATCH, INNER, COLUMNS)]


def get_init_inputs() -> list[object]:
    """The model takes no arguments."""
    return []
