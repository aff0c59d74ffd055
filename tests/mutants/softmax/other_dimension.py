"""Softmax over columns.

expect: wrong_output
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=0)
