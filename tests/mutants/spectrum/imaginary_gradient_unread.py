"""Of the gradient of the output, the real part alone.

expect: wrong_gradient
"""

import torch


class Real(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y):
        return y.clone()

    @staticmethod
    def backward(ctx, grad):
        return torch.complex(grad.real, torch.zeros_like(grad.real))


class ModelNew(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.randn(columns, dtype=torch.complex64))

    def forward(self, signal, phase):
        return Real.apply((torch.fft.fft(signal) * self.gain * phase).conj())
