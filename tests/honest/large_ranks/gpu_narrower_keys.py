"""Keys are below 2^30: as int32 they take half as many passes to sort, on whatever values.

expect: pass
"""

import torch

DEVICES = ("cuda",)


class ModelNew(torch.nn.Module):
    def forward(self, keys, values):
        return values[keys.int().argsort(stable=True)].cumsum(0)
