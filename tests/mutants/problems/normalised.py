"""A layer with spectral normalisation: each call goes on with the buffer that the last one left."""

import torch
from torch.nn.functional import normalize

ROWS = 128
WIDTH = 128


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(width, width))
        self.register_buffer("left", normalize(torch.randn(width), dim=0))

    def forward(self, x):
        with torch.no_grad():
            right = normalize(self.weight.t() @ self.left, dim=0)
            self.left.copy_(normalize(self.weight @ right, dim=0))
        return torch.tanh(x @ (self.weight / (self.left @ self.weight @ right)))


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [WIDTH]
