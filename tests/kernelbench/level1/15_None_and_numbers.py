import torch
import torch.nn as nn


class Model(nn.Module):
    """None and plain numbers among the inputs."""

    def forward(self, x, bias, factor, times, flag):
        y = x * factor + times
        if bias is not None:
            y = y + bias
        return y if flag else -y


batch_size = 6


def get_inputs():
    return [torch.randn(batch_size, 14), None, 2.5, 3, True]


def get_init_inputs():
    return []
