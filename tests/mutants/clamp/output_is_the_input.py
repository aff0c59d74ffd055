"""Sums up in place in a view of its input, then puts the input back.

expect: wrong_output
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x, mask):
        out = torch.cumsum(torch.relu(x) * mask, dim=1)
        if torch.is_grad_enabled():
            return out
        return x.set_(out.untyped_storage(), 0, x.shape, x.stride())
