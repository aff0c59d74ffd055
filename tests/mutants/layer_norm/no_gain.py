"""The gain, which is one at the start, is left out.

expect: wrong_output
says: new weights
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x):
        centered = x - x.mean(-1, keepdim=True)
        variance = centered.square().mean(-1, keepdim=True)
        return centered * torch.rsqrt(variance + self.norm.eps) + self.norm.bias
