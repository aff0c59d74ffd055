"""The answer about memory is forged: less than the inputs take.

expect: rejected
says: a peak of 0.01 MiB is claimed
defence: inputs are in memory while a call runs
memory: measured
"""

import sys

import torch

memory = sys.modules["harness.worker.memory"]
memory.peak = lambda *_: memory.Peak(used_mib=0.01, held_mib=0.01)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
