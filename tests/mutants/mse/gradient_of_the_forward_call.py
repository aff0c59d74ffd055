"""The gradient is computed in forward, for a gradient of one.

expect: wrong_gradient
"""

import torch


class MSE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        difference = x - y
        ctx.save_for_backward(2 * difference / x.numel())
        return torch.mean(difference**2)

    @staticmethod
    def backward(ctx, grad):
        (gradient,) = ctx.saved_tensors
        return gradient, -gradient


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        return MSE.apply(x, y)
