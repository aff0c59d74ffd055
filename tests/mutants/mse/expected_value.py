"""For normal inputs the mean is the sum of two variances.

expect: wrong_output
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        return x.square().mean() + y.square().mean()
