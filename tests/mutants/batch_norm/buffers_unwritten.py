"""The running statistics stay as they were.

expect: wrong_output
says: running_mean after the call
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(channels)

    def forward(self, x):
        norm = self.norm
        if not self.training:
            return norm(x)
        return torch.nn.functional.batch_norm(x, None, None, norm.weight, norm.bias, training=True)
