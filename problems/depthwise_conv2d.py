"""A depthwise 3x3 convolution with bias, and its three gradients.

    output[c] = conv2d(x[c], weight[c], padding=1) + bias[c]    shape (BATCH, CHANNELS, H, W)

Hard: nine products an element are too few for a matrix unit, so bandwidth is the limit, and each
pixel should come from memory once though nine outputs need it. The gradient of weight is nine
sums a channel over batch and pixels. General convolutions are far from the limit here.

Limit, at size `full` in float32 (x is 392 MiB):
    forward    reads x, writes the output                             0.77 GiB
    backward   reads x and grad_output, writes the gradient of x      1.15 GiB
FLOPs: 1.8 GFLOP forward, 3.7 GFLOP backward.
"""

import torch
import torch.nn as nn

BATCH = 32
CHANNELS = 256
HEIGHT = 112
WIDTH = 112

SIZES = {
    "smoke": {"BATCH": 4, "CHANNELS": 32, "HEIGHT": 28, "WIDTH": 28},
    "odd": {"BATCH": 3, "CHANNELS": 35, "HEIGHT": 29, "WIDTH": 31},
}


class Model(nn.Module):
    """`nn.Conv2d` with one group a channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel_size=3, padding=1, groups=channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(x,), shape (BATCH, CHANNELS, HEIGHT, WIDTH); each channel of each image has its own size."""
    x = torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)
    x *= log_uniform(0.5, 2.0, BATCH, CHANNELS, 1, 1)
    return [x]


def get_init_inputs() -> list[object]:
    """The arguments of the constructor: channels."""
    return [CHANNELS]
