import torch
import torch.nn as nn


class Model(nn.Module):
    """get_init_inputs gives a list of values and a dict of options."""

    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=eps)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.rand([4, 4, 16])]


def get_init_inputs():
    return [[16], {"eps": 1e-3}]
