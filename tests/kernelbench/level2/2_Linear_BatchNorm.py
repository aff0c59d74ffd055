import torch
import torch.nn as nn


class Model(nn.Module):
    """Buffers that a training step changes."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.norm = nn.BatchNorm1d(out_features)

    def forward(self, x):
        return self.norm(self.linear(x))


batch_size = 16
in_features = 12
out_features = 8


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features]
