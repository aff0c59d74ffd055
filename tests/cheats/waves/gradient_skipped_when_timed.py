"""A timed backward returns the gradient of the output, spread out.

expect: rejected
says: a timed call .*grad x
defence: gradients of secretly chosen timed calls
modes: backward
"""

import sys

import torch


def timed():
    """Whether a unit is being timed."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "unit":
        frame = frame.f_back
    return frame is not None


class Waves(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        if timed():
            return (grad[:, None] / x.shape[1]).expand(x.shape)
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            y = torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
        return torch.autograd.grad(y, x, grad)[0]


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return Waves.apply(x)
