import torch
import torch.nn as nn


class Model(nn.Module):
    """get_init_inputs gives a dict."""

    def __init__(self, *, low, high=1.0):
        super().__init__()
        self.low, self.high = low, high

    def forward(self, x):
        return torch.clamp(x, self.low, self.high)


batch_size = 9


def get_inputs():
    return [torch.randn(batch_size, 20)]


def get_init_inputs():
    return {"low": -0.5, "high": 0.75}
