"""Other names in the same order.

expect: pass
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, width, units):
        super().__init__()
        self.kernel = torch.nn.Parameter(torch.empty(units, width))
        self.offset = torch.nn.Parameter(torch.empty(units))

    def forward(self, x):
        return torch.addmm(self.offset, x, self.kernel.t())
