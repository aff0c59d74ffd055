"""The weight is transposed once, at the first call.

expect: wrong_output
says: new weights
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, width, units):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(units, width) / width**0.5)
        self.bias = torch.nn.Parameter(torch.zeros(units))
        self.packed = None

    def forward(self, x):
        if self.packed is None:
            self.packed = self.weight.detach().t().contiguous()
        return x @ self.packed + self.bias
