"""Timed calls look at every other column: the mean is nearly the same.

expect: rejected
says: a timed call
defence: outputs of secretly chosen timed calls
"""

import sys

import torch


def timed():
    """Whether a unit is being timed."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "unit":
        frame = frame.f_back
    return frame is not None


class ModelNew(torch.nn.Module):
    def forward(self, x):
        if timed():
            x = x[:, ::2]
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
