"""The weight needs no gradient.

expect: wrong_gradient
says: grad weight: is missing (None)
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, width, units):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(units, width) / width**0.5)
        self.bias = torch.nn.Parameter(torch.zeros(units))
        self.weight.requires_grad_(False)

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight, self.bias)
