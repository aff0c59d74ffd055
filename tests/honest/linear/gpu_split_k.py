"""The product in two halves of the inner dimension.

expect: pass
"""

import torch

DEVICES = ("cuda",)


class ModelNew(torch.nn.Module):
    def __init__(self, width, units):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(units, width))
        self.bias = torch.nn.Parameter(torch.empty(units))

    def forward(self, x):
        half = x.shape[1] // 2
        left = x[:, :half] @ self.weight[:, :half].t()
        return left + x[:, half:] @ self.weight[:, half:].t() + self.bias
