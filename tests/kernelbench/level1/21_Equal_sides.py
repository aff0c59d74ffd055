import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Constants assigned together, and one over the other."""

    def forward(self, x):
        return F.avg_pool2d(x, 2)


batch_size = 2
channels = 3
height = width = 64
height, width = 16, 12


def get_inputs():
    return [torch.rand(batch_size, channels, height, width)]


def get_init_inputs():
    return []
