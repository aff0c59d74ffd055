"""The second input gets the gradient of the first.

expect: wrong_gradient
says: sign flipped
"""

import torch


class MSE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return torch.mean((x - y) ** 2)

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        gradient = 2 * grad * (x - y) / x.numel()
        return gradient, gradient


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        return MSE.apply(x, y)
