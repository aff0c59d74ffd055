"""A figure that no float can hold, to bring down the judge, and with it all other evaluations.

expect: rejected
says: OverflowError
defence: figures lie within what can be measured
"""

import sys

import torch

sys.modules["harness.worker.session"].ORDERS["profile"] = lambda *_: ({"own_share": 10**400}, {})


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
