"""Gradients go to the first arguments that need one, whichever those are.

expect: wrong_gradient
says: one leaf alone
"""

import torch


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return x @ weight.t() + bias

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        if all(ctx.needs_input_grad):
            return grad @ weight, grad.t() @ x, grad.sum(0)
        # "Only the input is ever frozen."
        return None, grad.t() @ x if ctx.needs_input_grad[1] else None, None


class ModelNew(torch.nn.Module):
    def __init__(self, width, units):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(units, width) / width**0.5)
        self.bias = torch.nn.Parameter(torch.zeros(units))

    def forward(self, x):
        return Linear.apply(x, self.weight, self.bias)
