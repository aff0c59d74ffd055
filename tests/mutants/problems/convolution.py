"""A convolution large enough for tensor cores, of values whose signs are mixed."""

import torch

BATCH = 8
CHANNELS = 64


class Model(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = torch.nn.Conv2d(channels, 2 * channels, 3, padding=1)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, 32, 32)]


def get_init_inputs():
    return [CHANNELS]
