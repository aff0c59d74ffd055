"""A 3x3 convolution with bias, then SiLU, and all gradients.

    z = conv2d(x, weight, bias, padding=1),  output = z * sigmoid(z)    shape (BATCH, OUT, H, W)

Hard: FLOPs, on data that is no matrix until it is unfolded: nine shifted reads of each pixel. The
bias and SiLU are free if they come before the result leaves the registers; eager PyTorch makes
two passes of them. Backward is two convolutions, one of which sums over all pixels of the batch.

Limit, at size `full`: 59 GFLOP forward, 118 GFLOP backward, or 0.9 ms and 1.8 ms at 67 TFLOP/s
of float32. Bytes: 0.2 GB forward. Winograd's form needs fewer operations, and is let pass.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 64
CHANNELS = 128
OUT = 128
HEIGHT = 56
WIDTH = 56

SIZES = {
    "smoke": {"BATCH": 4, "CHANNELS": 16, "OUT": 32, "HEIGHT": 28, "WIDTH": 28},
    "odd": {"BATCH": 3, "CHANNELS": 13, "OUT": 19, "HEIGHT": 29, "WIDTH": 31},
}


class Model(nn.Module):
    """`nn.Conv2d`, then `silu`. A smooth activation: at the kink of a relu, rounding would decide
    which gradients are zero."""

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, out, kernel_size=3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.conv(x))


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(x,), shape (BATCH, CHANNELS, HEIGHT, WIDTH); each image has its own size, from 1 to 4."""
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH) * log_uniform(1.0, 4.0, BATCH, 1, 1, 1)]


def get_init_inputs() -> list[object]:
    """The arguments of the constructor: channels, out."""
    return [CHANNELS, OUT]
