"""The keys are sorted, and bring their places along.

expect: pass
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, keys, values):
        return values[keys.sort(stable=True)[1]].cumsum(0)
