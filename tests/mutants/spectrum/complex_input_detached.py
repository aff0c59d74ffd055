"""No gradient of the input that is complex.

expect: wrong_gradient
says: grad phase: is missing
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.randn(columns, dtype=torch.complex64))

    def forward(self, signal, phase):
        return (torch.fft.fft(signal) * self.gain * phase.detach()).conj()
