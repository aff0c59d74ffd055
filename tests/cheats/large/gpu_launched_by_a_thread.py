"""Timed calls are launched by another thread, after the end event.

expect: rejected
says: a timed call|timed region had ended|by the judge's clock|is claimed|on the device
defence: the judge's stopwatch
"""

import sys
import threading
import time

import torch

DEVICES = ("cuda",)
MAIN = threading.get_ident()


def timed():
    """Whether a unit is being timed by the main thread."""
    frame = sys._current_frames().get(MAIN)
    while frame is not None and frame.f_code.co_name != "unit":
        frame = frame.f_back
    return frame is not None


def waves(x):
    return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)


def later():
    """Launch what has been asked for since, as soon as the unit has ended."""
    while True:
        time.sleep(5e-5)
        while waiting and not timed():
            x, out = waiting.pop(0)
            out.copy_(waves(x))


waiting = []
threading.Thread(target=later, daemon=True).start()


class ModelNew(torch.nn.Module):
    def forward(self, x):
        if not timed():
            return waves(x)
        out = x.new_empty(x.shape[0])
        waiting.append((x.clone(), out))
        return out
