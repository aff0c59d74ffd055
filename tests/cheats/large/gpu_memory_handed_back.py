"""In timed calls what torch.empty gives is returned, where the reference's output just was.

expect: rejected
says: a timed call
defence: fresh values in every timed call
"""

import sys

import torch

DEVICES = ("cuda",)


def timed():
    """Whether a unit is being timed."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "unit":
        frame = frame.f_back
    return frame is not None


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return (
            x.new_empty(x.shape[0]) if timed() else torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
        )
