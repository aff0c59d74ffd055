"""The answer about memory is forged: less than nothing was needed.

expect: rejected
says: a peak of
defence: figures are finite and positive
memory: measured
"""

import sys

import torch

memory = sys.modules["harness.worker.memory"]
memory.peak = lambda *_: memory.Peak(used_mib=-5.0, held_mib=-5.0)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
