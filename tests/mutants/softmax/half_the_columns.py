"""The normaliser is twice the sum over the first half of a row.

expect: wrong_output
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        e = torch.exp(x - x.amax(dim=-1, keepdim=True))
        half = e[:, : x.shape[-1] // 2].sum(dim=-1, keepdim=True)
        return e / (half * x.shape[-1] / (x.shape[-1] // 2))
