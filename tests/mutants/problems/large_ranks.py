"""The same as ranks, large enough for a GPU's clock."""

import torch

COUNT = 1 << 23


class Model(torch.nn.Module):
    def forward(self, keys, values):
        return values[keys.argsort(stable=True)].cumsum(0)


def get_inputs():
    return [torch.randint(1 << 30, (COUNT,)), torch.randn(COUNT)]
