import torch
import torch.nn as nn


class Model(nn.Module):
    """A buffer of booleans, which is registered."""

    def __init__(self, length):
        super().__init__()
        self.register_buffer("mask", torch.ones(length, length).tril().bool())

    def forward(self, scores):
        return scores.masked_fill(~self.mask, float("-inf")).softmax(dim=-1)


batch_size = 3
length = 10


def get_inputs():
    return [torch.randn(batch_size, length, length)]


def get_init_inputs():
    return [length]
