import torch
import torch.nn as nn


class Model(nn.Module):
    """A forward with an argument that get_inputs leaves out."""

    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, 4)

    def forward(self, x, residual=None, scale: float = 2.0):
        y = self.linear(x) * scale
        return y if residual is None else y + residual


features = 8


def get_inputs():
    return [torch.randn(7, features)]


def get_init_inputs():
    return [features]
