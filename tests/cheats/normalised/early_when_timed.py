"""The reference goes by what the last call left, so timed calls cannot be compared: they do nothing.

expect: rejected
says: a timed call
defence: by the judge's clock, buffers are put back before each call, and outputs compared
"""

import sys

import torch
from torch.nn.functional import normalize


def timed():
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name not in ("unit", "_returned"):
        frame = frame.f_back
    return frame is not None


class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(width, width))
        self.register_buffer("left", normalize(torch.randn(width), dim=0))

    def forward(self, x):
        if timed():
            return torch.zeros_like(x)
        with torch.no_grad():
            right = normalize(self.weight.t() @ self.left, dim=0)
            self.left.copy_(normalize(self.weight @ right, dim=0))
        return torch.tanh(x @ (self.weight / (self.left @ self.weight @ right)))
