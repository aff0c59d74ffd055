"""Keeps the input and computes the output again in the backward.

expect: pass
"""

import torch


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.softmax(x, dim=-1)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        y = torch.softmax(x, dim=-1)
        return torch.addcmul(y * grad, y, (grad * y).sum(dim=-1, keepdim=True), value=-1)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return Softmax.apply(x)
