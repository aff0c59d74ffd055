"""One layer more than the reference has.

expect: contract_error
says: parameters differ
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, width, units):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(units, width) / width**0.5)
        self.bias = torch.nn.Parameter(torch.zeros(units))
        self.extra = torch.nn.Linear(units, units)

    def forward(self, x):
        return x @ self.weight.t() + self.bias
