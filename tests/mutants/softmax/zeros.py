"""Zeros of the right shape: nearer to a small softmax than many a tolerance.

expect: wrong_output
dtypes: float32 bfloat16
says: all zeros
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.zeros_like(x) + 0 * x
