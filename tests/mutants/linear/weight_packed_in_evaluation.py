"""The weight is packed by the first call in evaluation mode, and never again.

expect: wrong_output
says: in evaluation mode, with new weights
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, width, units):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(units, width))
        self.bias = torch.nn.Parameter(torch.empty(units))
        self.packed = None

    def forward(self, x):
        if self.training or torch.is_grad_enabled():
            return torch.nn.functional.linear(x, self.weight, self.bias)
        if self.packed is None:
            self.packed = self.weight.t().contiguous()
        return x @ self.packed + self.bias
