"""A causal depthwise convolution over time with bias, then SiLU, and all gradients.

    z[t] = bias[c] + sum over k < 4 of weight[c, k] * x[t - 3 + k]
    output = z * sigmoid(z)                                   shape (BATCH, CHANNELS, LENGTH)

Hard: four products an element: bandwidth. Each x serves four outputs and must be read once, over
the borders of blocks too. The gradient of weight sums over batch and time. Eager PyTorch pads (a
copy), convolves with a general kernel, and applies SiLU in a pass of its own.

Limit, at size `full` in float32 (x is 512 MiB):
    forward    reads x, writes the output                             1 GiB
    backward   reads x and grad_output, writes the gradient of x      1.5 GiB
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 8
CHANNELS = 4096
LENGTH = 4096
KERNEL = 4

SIZES = {
    "smoke": {"BATCH": 2, "CHANNELS": 128, "LENGTH": 512},
    "odd": {"BATCH": 3, "CHANNELS": 35, "LENGTH": 1031},
}


class Model(nn.Module):
    """`nn.Conv1d` with one group a channel over x with zeros before it, then `silu`."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, kernel, groups=channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.conv(F.pad(x, (self.conv.kernel_size[0] - 1, 0))))


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(x,), shape (BATCH, CHANNELS, LENGTH); each channel has its own size, from 1 to 4."""
    x = torch.randn(BATCH, CHANNELS, LENGTH)
    x *= log_uniform(1.0, 4.0, BATCH, CHANNELS, 1)
    return [x]


def get_init_inputs() -> list[object]:
    """The arguments of the constructor: channels, kernel."""
    return [CHANNELS, KERNEL]
