"""No maximum is taken off before the exponential, which overflows.

expect: wrong_output
says: for inputs varied as
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        e = torch.exp(x)
        return e / e.sum(dim=-1, keepdim=True)
