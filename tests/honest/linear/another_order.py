"""The same names, created in another order and drawn otherwise.

expect: pass
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, width, units):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.rand(units))
        self.weight = torch.nn.Parameter(torch.zeros(units, width))

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight, self.bias)
