"""The gradient of the output is read as if it were contiguous.

expect: wrong_gradient
says: gradient of the output
"""

import torch


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, dim=-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        size = grad.untyped_storage().nbytes() // grad.element_size()
        memory = grad.as_strided((size,), (1,), 0)[grad.storage_offset() :]
        flat = torch.zeros(grad.numel())  # what lies past the buffer, on a good day
        flat[: memory.numel()] = memory[: grad.numel()]
        grad = flat.view(grad.shape)
        return y * (grad - (grad * y).sum(dim=-1, keepdim=True))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return Softmax.apply(x)
