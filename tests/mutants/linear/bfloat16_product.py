"""The product is computed in bfloat16.

expect: wrong_output
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, width, units):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(units, width) / width**0.5)
        self.bias = torch.nn.Parameter(torch.zeros(units))

    def forward(self, x):
        return (x.bfloat16() @ self.weight.bfloat16().t()).float() + self.bias
