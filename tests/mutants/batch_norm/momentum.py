"""Twice the momentum.

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
        return torch.nn.functional.batch_norm(
            x, norm.running_mean, norm.running_var, norm.weight, norm.bias, self.training, 0.2
        )
