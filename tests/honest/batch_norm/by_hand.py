"""Its own parameters and buffers, without the counter of batches.

expect: pass
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.empty(channels))
        self.offset = torch.nn.Parameter(torch.empty(channels))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("variance", torch.ones(channels))

    def forward(self, x):
        mean, variance = self.mean, self.variance
        if self.training:
            mean, variance = x.mean(0), x.var(0, unbiased=False)
            with torch.no_grad():
                self.mean.lerp_(mean, 0.1)
                self.variance.lerp_(variance * (len(x) / (len(x) - 1)), 0.1)
        return (x - mean) * torch.rsqrt(variance + 1e-5) * self.gain + self.offset
