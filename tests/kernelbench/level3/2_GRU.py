import torch
import torch.nn as nn


class Model(nn.Module):
    """A recurrent layer; a hidden state comes in, two tensors go out."""

    def __init__(self, input_size, hidden_size, num_layers=1):
        super().__init__()
        self.gru = nn.GRU(input_size, hidden_size, num_layers)

    def forward(self, x, h0):
        output, h_n = self.gru(x, h0)
        return output, h_n


seq_len = 3
batch_size = 3
input_size = 6
hidden_size = 8
num_layers = 1


def get_inputs():
    return [
        torch.rand(seq_len, batch_size, input_size),
        torch.rand((num_layers, batch_size, hidden_size)),
    ]


def get_init_inputs():
    return [input_size, hidden_size, num_layers]
