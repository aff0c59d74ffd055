"""A file larger than any that a build needs.

expect: load_error
says: File too large
defence: a limit on the size of a file
"""

import os

import torch

with open("large", "wb") as file:
    os.ftruncate(file.fileno(), 1 << 40)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
