import torch
import torch.nn as nn


class Model(nn.Module):
    """A boolean among the initial values."""

    def __init__(self, dim: int, keepdim: bool):
        super().__init__()
        self.dim = dim
        self.keepdim = keepdim

    def forward(self, x):
        return x.sum(dim=self.dim, keepdim=self.keepdim)


rows = 6
columns = 40


def get_inputs():
    return [torch.randn(rows, columns, 3)]


def get_init_inputs():
    return [1, True]
