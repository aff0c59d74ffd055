import torch
import torch.nn as nn


class Model(nn.Module):
    """An integer input that indexes, and a parameter."""

    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)

    def forward(self, index):
        return self.table(index)


vocabulary = 50
width = 6
batch_size = 4
length = 9


def get_inputs():
    return [torch.randint(0, vocabulary, (batch_size, length))]


def get_init_inputs():
    return [vocabulary, width]
