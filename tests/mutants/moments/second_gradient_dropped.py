"""The gradient of the second output is not used.

expect: wrong_gradient
"""

import torch


class Moments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.mean(dim=1), x.var(dim=1)

    @staticmethod
    def backward(ctx, grad_mean, grad_variance):
        (x,) = ctx.saved_tensors
        return (grad_mean / x.shape[1]).unsqueeze(1).expand_as(x)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return Moments.apply(x)
