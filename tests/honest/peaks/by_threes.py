"""The same in parts of the rows, and the most of these.

expect: pass
"""

import torch


def energy(x):
    return torch.lgamma(x.abs() + 2) * (1 + 0.05 * torch.sin(7 * x))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        parts = [energy(part).amax(dim=1) for part in x.chunk(3, dim=1)]
        return torch.stack(parts).amax(dim=0)
