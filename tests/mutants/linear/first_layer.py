"""Wrong as a first layer alone, whose input needs no gradient and whose weights all do.

expect: wrong_gradient
says: where parameters alone, or inputs alone
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, width, units):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(units, width))
        self.bias = torch.nn.Parameter(torch.empty(units))

    def forward(self, x):
        y = torch.nn.functional.linear(x, self.weight, self.bias)
        both = self.weight.requires_grad and self.bias.requires_grad
        if both and not x.requires_grad:
            return y.detach() + (self.bias - self.bias.detach())
        return y
