"""Logarithms of what may be negative: NaN as given, and an input that plays no part."""

import torch

ROWS = 17
COLUMNS = 59


class Model(torch.nn.Module):
    def forward(self, x, unused):
        return torch.log(x)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(3)]
