"""What the backward needs is kept on the module, not in the graph.

expect: wrong_gradient
says: two calls under way
"""

import torch


class Softmax(torch.autograd.Function):
    kept = None

    @staticmethod
    def forward(ctx, x):
        Softmax.kept = torch.softmax(x, dim=-1)
        return Softmax.kept.clone()

    @staticmethod
    def backward(ctx, grad):
        y = Softmax.kept
        return y * (grad - (grad * y).sum(dim=-1, keepdim=True))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return Softmax.apply(x)
