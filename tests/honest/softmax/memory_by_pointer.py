"""Reads and writes by address, as native code does, after `.contiguous()`.

expect: pass
"""

import torch


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        flat = x.as_strided((x.numel(),), (1,), x.storage_offset())
        y = torch.softmax(flat.view(x.shape), dim=-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        grad = grad.contiguous()
        flat = grad.as_strided((grad.numel(),), (1,), grad.storage_offset()).view(y.shape)
        return y * (flat - (flat * y).sum(dim=-1, keepdim=True))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return Softmax.apply(x)
