"""What the softmax is on average: 1 / COLUMNS everywhere.

expect: wrong_output
says: the same value
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.full_like(x, 1 / x.shape[-1]) + 0 * x
