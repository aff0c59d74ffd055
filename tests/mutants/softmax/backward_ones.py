"""The gradient for `sum()`: right for a gradient of ones only.

expect: wrong_gradient
dtypes: float32 float16 float64
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
        ones = torch.ones_like(grad)
        return y * (ones - (ones * y).sum(dim=-1, keepdim=True))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return Softmax.apply(x)
