"""Halves of the rows are computed by two threads, which are joined before the result is returned.

expect: pass
"""

from concurrent.futures import ThreadPoolExecutor

import torch


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = ThreadPoolExecutor(1)

    def half(self, x):
        with torch.no_grad():
            return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)

    def forward(self, x):
        if x.requires_grad:
            return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
        return torch.cat([self.pool.submit(self.half, part).result() for part in x.split(32)])
