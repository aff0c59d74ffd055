"""The same random numbers; of what is left, the largest values of a row are looked for each time.

expect: pass
"""

import torch

FEW = 64


def energy(x):
    return torch.lgamma(x.abs() + 2) * (1 + 0.05 * torch.sin(7 * x))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = torch.nn.functional.dropout(x, 0.5)
        large = x.abs().topk(FEW, dim=1).indices
        return energy(x.gather(1, large)).amax(dim=1)
