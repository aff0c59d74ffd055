import torch
import torch.nn as nn


class Model(nn.Module):
    """A number from get_init_inputs."""

    def __init__(self, factor: float):
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


batch_size = 16
dim = 32


def get_inputs():
    return [torch.rand(batch_size, dim)]


def get_init_inputs():
    return [1.5]
