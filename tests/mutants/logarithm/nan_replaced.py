"""Zero where the reference is NaN.

expect: wrong_output
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x, unused):
        return torch.nan_to_num(torch.log(x), nan=0.0) + 0 * unused.sum()
