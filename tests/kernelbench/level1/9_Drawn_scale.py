import torch
import torch.nn as nn


class Model(nn.Module):
    """Inputs whose scale is drawn as well."""

    def forward(self, predictions, targets):
        return ((predictions - targets) ** 2).sum(dim=1)


batch_size = 16
input_shape = (32,)
dim = 1


def get_inputs():
    scale = torch.rand(()) + 0.5
    return [torch.rand(batch_size, *input_shape) * scale, torch.rand(batch_size, *input_shape)]


def get_init_inputs():
    return []
