"""Timed calls compute in bfloat16.

expect: rejected
says: a timed call
defence: outputs of secretly chosen timed calls, with the error ratio
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
            x = x.bfloat16()
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1).float()
