"""The product in real arithmetic.

expect: pass
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.randn(columns, dtype=torch.complex64))

    def forward(self, signal, phase):
        x, y = torch.fft.fft(signal), self.gain * phase
        real = x.real * y.real - x.imag * y.imag
        return torch.complex(real, -(x.real * y.imag + x.imag * y.real))
