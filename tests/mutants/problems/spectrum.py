"""Complex numbers all over: an input, a weight, and an output that is a conjugate."""

import torch

ROWS = 7
COLUMNS = 30


class Model(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.randn(columns, dtype=torch.complex64))

    def forward(self, signal, phase):
        return (torch.fft.fft(signal) * self.gain * phase).conj()


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(COLUMNS, dtype=torch.complex64)]


def get_init_inputs():
    return [COLUMNS]
