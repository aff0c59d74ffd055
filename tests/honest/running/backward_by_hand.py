"""The backward written out: sums from the other end.

expect: pass
modes: forward backward
"""

import torch


class Sums(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.cumsum(dim=1).cumsum(dim=0).cumsum(dim=1)

    @staticmethod
    def backward(context, grad):
        for dim in (1, 0, 1):
            grad = grad.flip(dim).cumsum(dim).flip(dim)
        return grad


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return Sums.apply(x)
