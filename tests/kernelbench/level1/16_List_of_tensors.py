import torch
import torch.nn as nn


class Model(nn.Module):
    """An input that is a list of tensors."""

    def forward(self, tensors):
        return torch.cat(tensors, dim=1) * 2


batch_size = 5


def get_inputs():
    return [[torch.randn(batch_size, 3), torch.randn(batch_size, 4), torch.randn(batch_size, 1)]]


def get_init_inputs():
    return []
