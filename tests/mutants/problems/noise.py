"""The most of each row when a part was dropped by chance: random numbers, and much to compute."""

import torch

ROWS = 32
COLUMNS = 8192


def energy(x):
    return torch.lgamma(x.abs() + 2) * (1 + 0.05 * torch.sin(7 * x))


class Model(torch.nn.Module):
    def forward(self, x):
        return energy(torch.nn.functional.dropout(x, 0.5)).amax(dim=1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
