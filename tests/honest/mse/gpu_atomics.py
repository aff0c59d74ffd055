"""Partial sums in float32, added up by atomics in any order.

expect: pass
"""

import torch

DEVICES = ("cuda",)


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        terms = ((x - y) ** 2).reshape(-1)
        slots = torch.zeros(4, dtype=x.dtype, device=x.device)
        where = torch.arange(terms.numel(), device=x.device) % 4
        return slots.index_add(0, where, terms).sum() / terms.numel()
