"""The gradient of the sum in place of the mean.

expect: wrong_gradient
says: 61x the reference
"""

import torch


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets):
        ctx.save_for_backward(logits, targets)
        return torch.nn.functional.cross_entropy(logits, targets)

    @staticmethod
    def backward(ctx, grad):
        logits, targets = ctx.saved_tensors
        onehot = torch.nn.functional.one_hot(targets, logits.shape[-1])
        return grad * (torch.softmax(logits, dim=-1) - onehot), None


class ModelNew(torch.nn.Module):
    def forward(self, logits, targets):
        return CrossEntropy.apply(logits, targets)
