import torch
import torch.nn as nn


class Model(nn.Module):
    """Random numbers in the forward."""

    def __init__(self, in_features, out_features, p):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.dropout = nn.Dropout(p)

    def forward(self, x):
        return self.dropout(self.linear(x))


batch_size = 8
in_features = 16
out_features = 10
p = 0.3


def get_inputs():
    return [torch.randn(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, p]
