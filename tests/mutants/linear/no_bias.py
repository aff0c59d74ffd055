"""The bias, which is zero at the start, is left out.

expect: wrong_output
says: new weights
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, width, units):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(units, width) / width**0.5)
        self.bias = torch.nn.Parameter(torch.zeros(units))

    def forward(self, x):
        return x @ self.weight.t() + 0 * self.bias
