"""The weight is transposed once, in __init__.

expect: wrong_output
says: new weights
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, width, units):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(units, width) / width**0.5)
        self.bias = torch.nn.Parameter(torch.zeros(units))
        self.packed = self.weight.t().contiguous()

    def forward(self, x):
        return x @ self.packed + self.bias
