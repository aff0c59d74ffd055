"""The worker's clock stands still, so nothing takes any time.

expect: rejected
says: is no time
defence: times are finite and positive
"""

import sys

import torch

sys.modules["harness.worker.meters"]._clock = lambda: 0


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
