"""The gradient is computed in float16.

expect: wrong_gradient
says: float16
"""

import torch


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, dim=-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        y, grad = y.half(), grad.half()
        return (y * (grad - (grad * y).sum(dim=-1, keepdim=True))).float()


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return Softmax.apply(x)
