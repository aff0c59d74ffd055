"""One float32 accumulator from first to last.

expect: pass
"""

import torch


class MSE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return torch.cumsum(((x - y) ** 2).reshape(-1), 0)[-1] / x.numel()

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        gradient = (x - y) * (2 * grad / x.numel())
        return gradient, -gradient


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        return MSE.apply(x, y)
