"""Leaves another value in a weight, and counts on its being put right.

expect: wrong_output
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, width, units):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(units, width) / width**0.5)
        self.bias = torch.nn.Parameter(torch.zeros(units))

    def forward(self, x):
        out = torch.nn.functional.linear(x, self.weight, self.bias)
        with torch.no_grad():
            self.weight.data[0, 0] += 1
        return out
