"""Timed calls run on a stream of their own that nothing waits for.

expect: rejected
says: a timed call|timed region had ended
defence: the wait for the whole device, against the reference's
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
        if not timed():
            return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
        if not hasattr(self, "stream"):
            self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
