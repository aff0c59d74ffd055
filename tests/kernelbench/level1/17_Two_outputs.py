import torch
import torch.nn as nn


class Model(nn.Module):
    """Several outputs, one of them an integer."""

    def forward(self, x):
        values, places = torch.max(x, dim=1)
        return values, x.mean(dim=1), places


batch_size = 8
width = 30


def get_inputs():
    return [torch.randn(batch_size, width)]


def get_init_inputs():
    return []
