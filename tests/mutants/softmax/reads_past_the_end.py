"""Sums one column too many, where there is one: the next row's first, or what follows.

expect: wrong_output
says: other memory right before and after
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        e = torch.exp(x - x.amax(dim=-1, keepdim=True))
        total = e.sum(dim=-1, keepdim=True)
        end = x.storage_offset() + x.numel()
        if x.is_contiguous() and x.untyped_storage().nbytes() // 4 > end:
            total[-1] += 0 * x.detach().as_strided((1,), (1,), end)  # masked out, but read
        return e / total
