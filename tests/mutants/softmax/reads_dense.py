"""Reads the memory of its input as if it were contiguous.

expect: wrong_output
says: inputs that are not contiguous
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        dense = torch.as_strided(x, x.shape, (x.shape[1], 1), x.storage_offset())
        return torch.softmax(dense, dim=-1)
