"""A matrix product with an epilogue: a linear layer with bias, then GELU, and all gradients.

    z = x @ weight.T + bias,  output = gelu(z)                          shape (ROWS, FEATURES)

Hard: FLOPs. The epilogue costs nothing if it is applied before the product leaves the registers;
eager PyTorch writes z and reads it back. Backward is two products, whose left operand (the
gradient of z) is best made on the way in. Float32 means float32: TF32 fails the error model.

Limit, at size `full`: 275 GFLOP forward, 550 GFLOP backward; the bytes (0.4 GB) do not matter.
In float32 without tensor cores that is 4.1 ms and 8.2 ms at 67 TFLOP/s.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 8192
INNER = 4096
FEATURES = 4096

SIZES = {
    "smoke": {"ROWS": 128, "INNER": 256, "FEATURES": 256},
    "odd": {"ROWS": 127, "INNER": 131, "FEATURES": 259},
}


class Model(nn.Module):
    """`nn.Linear`, then `gelu`. A smooth activation: at the kink of a relu, rounding would decide
    which gradients are zero."""

    def __init__(self, inner: int, features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inner, features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.linear(x))


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(x,), shape (ROWS, INNER). Each row has its own size, from 0.5 to 4: with the layer's own
    weights GELU then meets both of its tails."""
    return [torch.randn(ROWS, INNER) * log_uniform(0.5, 4.0, ROWS, 1)]


def get_init_inputs() -> list[object]:
    """The arguments of the constructor: inner, features."""
    return [INNER, FEATURES]
