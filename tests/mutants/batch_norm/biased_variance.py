"""The running variance is the biased one.

expect: wrong_output
says: running_var after the call
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
        with torch.no_grad():
            norm.running_mean.lerp_(x.mean(0), 0.1)
            norm.running_var.lerp_(x.var(0, unbiased=False), 0.1)
        return torch.nn.functional.batch_norm(x, None, None, norm.weight, norm.bias, training=True)
