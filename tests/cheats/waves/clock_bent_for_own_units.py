"""The worker's clock runs slow while the solution's units are timed.

expect: rejected
says: by the judge's clock|beside the solution
defence: the judge's stopwatch
"""

import sys

import torch

meters = sys.modules["harness.worker.meters"]
real = meters.CpuMeter.unit


def unit(self, side, mode, sets):
    found = real(self, side, mode, sets)
    if side.name == "candidate":
        found.ms /= 5
    return found


meters.CpuMeter.unit = unit


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
