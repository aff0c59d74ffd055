"""Two layers without biases: a row times a number gives its output times that number."""

import torch

ROWS = 64
WIDTH = 128
INNER = 512


class Model(torch.nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.first = torch.nn.Linear(width, inner, bias=False)
        self.second = torch.nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [WIDTH, INNER]
