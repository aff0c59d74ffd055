"""Inputs are rounded to 10 bits of mantissa, as TF32 does.

expect: wrong_output
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, width, units):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(units, width) / width**0.5)
        self.bias = torch.nn.Parameter(torch.zeros(units))

    def forward(self, x):
        if torch.is_grad_enabled():
            return torch.nn.functional.linear(x, self.weight, self.bias)
        return torch.nn.functional.linear(rounded(x), rounded(self.weight), self.bias)


def rounded(x):
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)
