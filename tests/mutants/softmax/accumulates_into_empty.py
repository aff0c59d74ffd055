"""Starts its sum from memory that it has not written, skipping what is NaN.

expect: wrong_output
says: uninitialised memory
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        start = torch.empty(x.shape[0], 1).nan_to_num(0.0)
        e = torch.exp(x - x.amax(dim=-1, keepdim=True))
        return e / (start + e.sum(dim=-1, keepdim=True))
