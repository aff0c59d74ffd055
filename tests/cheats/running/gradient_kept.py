"""The gradient of what is linear hangs on that of the output alone: it is kept by that tensor.

expect: rejected
says: a timed call
defence: fresh gradients of the outputs in every timed call
modes: forward backward
"""

import torch


class Sums(torch.autograd.Function):
    kept = ()

    @staticmethod
    def forward(context, x):
        return x.cumsum(dim=1).cumsum(dim=0).cumsum(dim=1)

    @staticmethod
    def backward(context, grad):
        for tensor, version, result in Sums.kept:
            if tensor is grad and version == grad._version:
                return result
        result = grad
        for dim in (1, 0, 1):
            result = result.flip(dim).cumsum(dim).flip(dim)
        Sums.kept = [*Sums.kept[-20:], (grad, grad._version, result)]
        return result


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return Sums.apply(x)
