"""A linear layer: weight, bias, and an input that needs a gradient."""

import torch

ROWS = 37
WIDTH = 33
UNITS = 17


class Model(torch.nn.Module):
    def __init__(self, width, units):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(units, width) / width**0.5)
        self.bias = torch.nn.Parameter(torch.zeros(units))

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight, self.bias)


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [WIDTH, UNITS]
