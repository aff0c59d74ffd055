import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Groups that the channels must be a multiple of; a tuple for a kernel."""

    def __init__(self, in_channels, out_channels, kernel_size, num_groups):
        super().__init__()
        self.conv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size)
        self.norm = nn.GroupNorm(num_groups, out_channels)

    def forward(self, x):
        return F.hardswish(self.norm(self.conv(x)))


batch_size = 2
in_channels = 4
out_channels = 6
kernel_size = (2, 3)
num_groups = 3
side = 6


def get_inputs():
    return [torch.randn(batch_size, in_channels, side, side)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, num_groups]
