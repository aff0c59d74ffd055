import torch
import torch.nn as nn


class Model(nn.Module):
    """A boolean input."""

    def forward(self, x, mask):
        return (x * mask).cumsum(dim=1)


batch_size = 5
length = 21


def get_inputs():
    return [torch.randn(batch_size, length), torch.randint(0, 2, (batch_size, length)).bool()]


def get_init_inputs():
    return []
