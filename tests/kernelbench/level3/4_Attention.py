import math

import torch
import torch.nn as nn


class Model(nn.Module):
    """Views, transposes, a product of batches."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(C // self.heads)
        y = scores.softmax(dim=-1) @ v
        return self.out(y.transpose(1, 2).contiguous().view(B, T, C))


batch_size = 2
seq_len = 7
width = 12
heads = 3


def get_inputs():
    return [torch.rand(batch_size, seq_len, width)]


def get_init_inputs():
    return [width, heads]
