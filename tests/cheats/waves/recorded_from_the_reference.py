"""A hook on the reference keeps its outputs; timed calls return the last.

expect: rejected
says: a timed call
defence: fresh values in every timed call
"""

import sys

import torch


def timed():
    """Whether a unit is being timed."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "unit":
        frame = frame.f_back
    return frame is not None


kept = []


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        model = sys.modules["problem_under_test"].Model
        real = model.forward

        def forward(self, x):
            kept[:] = [real(self, x)]
            return kept[0]

        model.forward = forward

    def forward(self, x):
        return (
            kept[0].detach().clone()
            if timed() and kept
            else torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
        )
