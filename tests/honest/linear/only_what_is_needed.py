"""Gradients only of what needs one, None for the rest.

expect: pass
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
        for_x, for_weight, for_bias = ctx.needs_input_grad
        return (
            grad @ weight if for_x else None,
            grad.t() @ x if for_weight else None,
            grad.sum(0) if for_bias else None,
        )


class ModelNew(torch.nn.Module):
    def __init__(self, width, units):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(units, width))
        self.bias = torch.nn.Parameter(torch.empty(units))

    def forward(self, x):
        return Linear.apply(x, self.weight, self.bias)
