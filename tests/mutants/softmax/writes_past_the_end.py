"""Writes one element past the end of its input, where there is room.

expect: wrong_output
says: outside of the input
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        end = x.storage_offset() + x.numel()
        if x.untyped_storage().nbytes() // 4 > end:
            x.detach().as_strided((1,), (1,), end).zero_()
        return torch.softmax(x, dim=-1)
