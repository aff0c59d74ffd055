"""Both outputs of one function with one backward.

expect: pass
"""

import torch


class Moments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        mean = x.mean(dim=1)
        centered = x - mean.unsqueeze(1)
        ctx.save_for_backward(centered)
        return mean, centered.square().sum(dim=1) / (x.shape[1] - 1)

    @staticmethod
    def backward(ctx, grad_mean, grad_variance):
        (centered,) = ctx.saved_tensors
        count = centered.shape[1]
        gradient = centered * (2 / (count - 1) * grad_variance).unsqueeze(1)
        return gradient + (grad_mean / count).unsqueeze(1)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return Moments.apply(x)
