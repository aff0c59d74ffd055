import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)) + x)


class Model(nn.Module):
    """Helpers beside Model, layers in a ModuleList."""

    def __init__(self, channels, depth):
        super().__init__()
        self.blocks = nn.ModuleList(Block(channels) for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.mean(dim=(2, 3))


batch_size = 4
channels = 4
side = 4


def get_inputs():
    return [torch.randn(batch_size, channels, side, side)]


def get_init_inputs():
    return [channels, 1]
