"""Group normalisation of images with gain and bias by channel, and its three gradients.

    xhat = (x - mean) / sqrt(var + 1e-5), both over the channels and pixels of a group
    output = weight[channel] * xhat + bias[channel]             shape (BATCH, CHANNELS, H, W)

Hard: a group is 512 KiB, more than a block can hold, so statistics and result are two passes,
and the second is free only if it meets its data in the cache. Backward sums along two different
axes: by group for the gradient of x, by channel over the batch for those of weight and bias.

Limit, at size `full` in float32 (x is 512 MiB):
    forward    reads x, writes the output                             1 GiB
    backward   reads x and grad_output, writes the gradient of x      1.5 GiB
"""

import torch
import torch.nn as nn

BATCH = 32
CHANNELS = 256
GROUPS = 32
HEIGHT = 128
WIDTH = 128

SIZES = {
    "smoke": {"BATCH": 4, "CHANNELS": 64, "GROUPS": 8, "HEIGHT": 16, "WIDTH": 32},
    "odd": {"BATCH": 3, "CHANNELS": 35, "GROUPS": 5, "HEIGHT": 17, "WIDTH": 19},
}


class Model(nn.Module):
    """`nn.GroupNorm`, with weights that are not 1 and 0."""

    def __init__(self, groups: int, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias, std=0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(x,), shape (BATCH, CHANNELS, HEIGHT, WIDTH). Each channel of each image has its own mean
    and spread, so that no part of a group stands for all of it."""
    x = torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)
    x *= log_uniform(0.2, 2.0, BATCH, CHANNELS, 1, 1)
    x += torch.randn(BATCH, CHANNELS, 1, 1)
    return [x]


def get_init_inputs() -> list[object]:
    """The arguments of the constructor: groups, channels."""
    return [GROUPS, CHANNELS]
