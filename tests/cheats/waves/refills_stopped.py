"""The refill of the inputs between units is switched off, so that a cache is right.

expect: rejected
says: a timed call
defence: outputs are judged by values that the judge works out
"""

import sys

import torch

sys.modules["harness.worker.pool"].Pool.fill = lambda *_: None


class ModelNew(torch.nn.Module):
    known = {}  # noqa: RUF012

    def forward(self, x):
        key = (x.data_ptr(), x._version, x.stride())
        if torch.is_grad_enabled() or key not in self.known:
            self.known[key] = (x, torch.tanh(torch.exp(torch.sin(x))).mean(dim=1))
        return self.known[key][1].clone()
