"""The backward treats mean and variance as constants.

expect: wrong_gradient
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
        norm(x.detach())  # the running statistics
        mean, variance = x.detach().mean(0), x.detach().var(0, unbiased=False)
        return (x - mean) * torch.rsqrt(variance + norm.eps) * norm.weight + norm.bias
