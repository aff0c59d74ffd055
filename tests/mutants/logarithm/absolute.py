"""A number where the reference is NaN.

expect: wrong_output
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x, unused):
        return torch.log(x.abs())
