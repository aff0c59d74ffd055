"""The reference's forward is replaced by one that sleeps.

expect: rejected
says: beside the solution
defence: the reference timed where no solution is loaded
"""

import sys
import time

import torch


def slow(self, x):
    time.sleep(0.002)
    return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        sys.modules["problem_under_test"].Model.forward = slow

    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
