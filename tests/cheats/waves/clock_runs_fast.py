"""The worker's clock runs a thousand times too fast for both sides.

expect: rejected
says: claimed for an epoch|beside the solution
defence: the judge's wall clock
"""

import sys

import torch

meters = sys.modules["harness.worker.meters"]
real = meters._clock
meters._clock = lambda: 1000 * real()


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
