"""A conjugate, which torch marks and does not compute.

expect: pass
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.randn(columns, dtype=torch.complex64))

    def forward(self, signal, phase):
        return (torch.fft.fft(signal) * (self.gain * phase)).conj()
