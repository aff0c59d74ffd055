import numpy as np
import torch
import torch.nn as nn


class Model(nn.Module):
    """Inputs that NumPy makes: on the CPU, whatever the device."""

    def forward(self, x, y):
        return x - y


batch_size = 6
width = 8


def get_inputs():
    x = torch.from_numpy(np.random.rand(batch_size, width).astype("float32"))
    return [x, x * 2 + torch.rand(width, device="cpu")]


def get_init_inputs():
    return []
