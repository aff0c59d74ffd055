"""Where a forward in training is timed on its own, nothing is kept for a backward.

expect: rejected
says: a timed call
defence: after the unit on new values the worker goes back
modes: forward_train
"""

import sys

import torch

STEPS = 6


def timed_alone():
    """Whether a forward in training is being timed, and no backward will follow."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "run":
        frame = frame.f_back
    return frame is not None and frame.f_locals["mode"] == "forward_train"


class ModelNew(torch.nn.Module):
    def forward(self, x):
        if timed_alone():
            return self.without_graph(x)
        for _ in range(STEPS):
            x = torch.relu(1.5 * x - 0.25)
        return x.mean(dim=1)

    @torch.no_grad()
    def without_graph(self, x):
        x = 1.5 * x
        x.sub_(0.25).relu_()
        for _ in range(STEPS - 1):
            x.mul_(1.5).sub_(0.25).relu_()
        return x.mean(dim=1)
