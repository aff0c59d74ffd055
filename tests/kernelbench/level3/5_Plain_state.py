import torch
import torch.nn as nn


class Model(nn.Module):
    """A tensor that is neither parameter nor buffer, of a size that the module's constants give."""

    def __init__(self, hidden_size):
        super().__init__()
        self.h0 = torch.randn((1, batch_size, hidden_size))
        self.gate = nn.Linear(hidden_size, hidden_size)

    def forward(self, x):
        return torch.tanh(self.gate(x) + self.h0.to(x.device)[0].to(x.dtype))


batch_size = 6
hidden_size = 10


def get_inputs():
    return [torch.randn(batch_size, hidden_size)]


def get_init_inputs():
    return [hidden_size]
