"""The gradient of a loss is one: it need not be read.

expect: wrong_gradient
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
        return (torch.softmax(logits, dim=-1) - onehot) / len(targets), None


class ModelNew(torch.nn.Module):
    def forward(self, logits, targets):
        return CrossEntropy.apply(logits, targets)
