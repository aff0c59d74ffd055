import torch
import torch.nn as nn


class Model(nn.Module):
    """One parameter under two names."""

    def __init__(self, features):
        super().__init__()
        self.first = nn.Linear(features, features)
        self.second = nn.Linear(features, features)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


batch_size = 5
features = 9


def get_inputs():
    return [torch.randn(batch_size, features)]


def get_init_inputs():
    return [features]
