"""The first attempt of a unit opens the gate on purpose; the second gets what the first computed.

expect: rejected
says: the output of a timed call
defence: new values at every attempt
"""

import sys
import time

import torch

DEVICES = ("cuda",)


def meter():
    """What times the unit that is under way, if any, behind a gate."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "unit":
        frame = frame.f_back
    found = frame and frame.f_locals["self"]
    return found if hasattr(found, "_gate") else None


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.ready = {}

    def forward(self, x):
        timing = meter()
        if timing is not None and x.data_ptr() in self.ready:
            return self.ready.pop(x.data_ptr())
        output = torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
        if timing is not None:
            self.ready[x.data_ptr()] = output
            time.sleep(0.001)  # the gate is shorter
            timing._gate.seconds = 200e-6  # and stays so
        return output
