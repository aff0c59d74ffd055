"""Batch normalisation of images in training mode, running statistics and three gradients.

    xhat = (x - mean) / sqrt(var + 1e-5), both over batch and pixels of a channel
    output = weight[channel] * xhat + bias[channel]             shape (BATCH, CHANNELS, H, W)
    running_mean, running_var: a tenth of the way towards mean and (unbiased) var

Hard: the statistics of a channel need all of x before one element of the output is known, and 392
MiB fit no cache: x is read twice. Backward reads x and grad_output twice for the same reason. A
channel lies in BATCH pieces of 49 KiB.

Limit, at size `full` in float32 (x is 392 MiB). As reported, which counts each tensor once:
    forward    reads x, writes the output                             0.77 GiB
    backward   reads x and grad_output, writes the gradient of x      1.15 GiB
What can be reached without a cache that holds x: 1.15 GiB and 1.91 GiB.
"""

import torch
import torch.nn as nn

BATCH = 64
CHANNELS = 128
HEIGHT = 112
WIDTH = 112

SIZES = {
    "smoke": {"BATCH": 8, "CHANNELS": 32, "HEIGHT": 16, "WIDTH": 32},
    "odd": {"BATCH": 5, "CHANNELS": 35, "HEIGHT": 17, "WIDTH": 19},
}


class Model(nn.Module):
    """`nn.BatchNorm2d` in training mode, with weights that are not 1 and 0."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias, std=0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(x,), shape (BATCH, CHANNELS, HEIGHT, WIDTH). Each channel of each image has its own mean
    and spread, so that half of a batch does not stand for all of it."""
    x = torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)
    x *= log_uniform(0.2, 2.0, BATCH, CHANNELS, 1, 1)
    x += torch.randn(BATCH, CHANNELS, 1, 1)
    return [x]


def get_init_inputs() -> list[object]:
    """The arguments of the constructor: channels."""
    return [CHANNELS]
