"""Dropout, then a linear layer: the reference draws random numbers itself."""

import torch

ROWS = 33
WIDTH = 29


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.drop = torch.nn.Dropout(0.3)
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x):
        return self.linear(self.drop(x))


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [WIDTH]
