"""Seventy percent, on average.

expect: wrong_output
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x, mask):
        return torch.cumsum(torch.relu(x) * 0.7, dim=1)
