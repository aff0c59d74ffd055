"""The share of its own kernels is forged, as NaN: equal to nothing, so not equal to 0.

expect: rejected
says: a share of nan
defence: figures are finite and within their range
"""

import sys

import torch

sys.modules["harness.worker.session"].ORDERS["profile"] = lambda *_: (
    {"own_share": float("nan")},
    {},
)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
