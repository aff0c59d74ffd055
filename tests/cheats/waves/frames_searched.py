"""The callers' local variables are searched for what is expected.

expect: wrong_output
says: output
defence: the right answer is never in the worker
"""

import sys

import torch


def expected():
    frame = sys._getframe()
    while frame is not None:
        for name, value in frame.f_locals.items():
            if name in ("expected", "wanted", "reference", "oracle") and torch.is_tensor(value):
                return value
        frame = frame.f_back
    return None


class ModelNew(torch.nn.Module):
    def forward(self, x):
        found = expected()
        return (x * 0).mean(dim=1) if found is None else found
