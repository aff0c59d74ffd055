"""A packed copy of the weight, made anew whenever the weight has changed.

expect: pass
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, width, units):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(units, width))
        self.bias = torch.nn.Parameter(torch.empty(units))
        self.version = None

    def forward(self, x):
        if torch.is_grad_enabled():
            return torch.nn.functional.linear(x, self.weight, self.bias)
        if self.version != self.weight._version:
            self.packed, self.version = self.weight.detach().t().contiguous(), self.weight._version
        return x @ self.packed + self.bias
