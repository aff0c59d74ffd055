import torch
import torch.nn as nn


class Model(nn.Module):
    """A dimension from get_init_inputs."""

    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.softmax(x, dim=self.dim)


batch_size = 8
features = 48


def get_inputs():
    x = torch.rand(batch_size, features)
    return [x]


def get_init_inputs():
    return [1]
