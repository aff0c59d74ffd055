"""The variance is divided by WIDTH - 1.

expect: wrong_output
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x):
        centered = x - x.mean(-1, keepdim=True)
        variance = x.var(-1, keepdim=True)
        return centered * torch.rsqrt(variance + 1e-5) * self.norm.weight + self.norm.bias
