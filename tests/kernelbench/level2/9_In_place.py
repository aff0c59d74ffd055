import torch
import torch.nn as nn


class Model(nn.Module):
    """In-place activations on its own results."""

    def __init__(self, features):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(features, features), nn.ReLU(inplace=True))

    def forward(self, x):
        x = self.net(x)
        x = x + 1
        return x.mul_(0.5)


batch_size = 6
features = 7


def get_inputs():
    return [torch.randn(batch_size, features)]


def get_init_inputs():
    return [features]
