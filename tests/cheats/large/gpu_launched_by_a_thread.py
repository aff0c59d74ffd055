"""Timed calls are launched by another thread, after the end event.

expect: rejected
says: a timed call|timed region had ended|by the judge's clock
defence: the judge's stopwatch
"""

import sys
import threading
import time

import torch

DEVICES = ("cuda",)


def timed():
    """Whether a unit is being timed."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "unit":
        frame = frame.f_back
    return frame is not None


def waves(x):
    return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)


def later(x, out):
    time.sleep(0.001)
    out.copy_(waves(x))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        if not timed():
            return waves(x)
        out = x.new_empty(x.shape[0])
        threading.Thread(target=later, args=(x, out)).start()
        return out
