"""Samples lack a dimension, so that the judge itself would fail, and fast_p leave the row out.

expect: rejected
says: a malformed answer
defence: whatever is done with an answer, what does not fit is no answer
"""

import sys

import torch

timer = sys.modules["harness.worker.timing"].Timer
real = timer.samples
timer.samples = lambda self, seed: real(self, seed)[:, 0]


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
