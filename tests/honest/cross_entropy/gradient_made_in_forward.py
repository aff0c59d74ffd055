"""The gradient is made in forward, and only scaled in backward.

expect: pass
dtypes: float32 float16 bfloat16 float64
"""

import torch


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets):
        probabilities = torch.softmax(logits, dim=-1)
        rows = torch.arange(len(targets), device=logits.device)
        loss = -torch.log_softmax(logits, dim=-1)[rows, targets].mean()
        probabilities[rows, targets] -= 1
        ctx.save_for_backward(probabilities.div_(len(targets)))
        return loss

    @staticmethod
    def backward(ctx, grad):
        (gradient,) = ctx.saved_tensors
        return gradient * grad, None


class ModelNew(torch.nn.Module):
    def forward(self, logits, targets):
        return CrossEntropy.apply(logits, targets)
