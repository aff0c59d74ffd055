"""A workspace of its own, registered as a buffer and overwritten at each call.

expect: pass
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, width, units):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(units, width))
        self.bias = torch.nn.Parameter(torch.empty(units))
        self.register_buffer("workspace", torch.zeros(width, units), persistent=False)

    def forward(self, x):
        if torch.is_grad_enabled():
            return torch.nn.functional.linear(x, self.weight, self.bias)
        self.workspace.copy_(self.weight.t())
        return torch.addmm(self.bias, x, self.workspace)
