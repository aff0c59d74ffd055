"""The inputs are never negative, so relu is left out.

expect: wrong_output
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x, mask):
        return torch.cumsum(x * mask, dim=1)
