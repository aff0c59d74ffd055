"""The reference draws random numbers, so timed calls cannot be compared: they return garbage.

expect: rejected
says: a timed call
defence: calls by the judge's clock are seeded one by one, and compared
"""

import sys

import torch


def timed():
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name not in ("unit", "_returned"):
        frame = frame.f_back
    return frame is not None


class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.drop = torch.nn.Dropout(0.3)
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x):
        return torch.zeros_like(x) if timed() else self.linear(self.drop(x))
