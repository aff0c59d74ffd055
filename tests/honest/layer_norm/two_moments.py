"""Mean and variance from the sums of values and squares.

expect: pass
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        variance = (x * x).mean(-1, keepdim=True) - mean * mean
        scale = torch.rsqrt(variance.clamp(min=0) + self.norm.eps)
        return (x - mean) * scale * self.norm.weight + self.norm.bias
