"""The backward works in the memory of the gradient that it is given.

expect: wrong_output
says: the gradient of output was changed in place
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
        grad -= (grad * y).sum(dim=-1, keepdim=True)
        return y * grad


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return Softmax.apply(x)
