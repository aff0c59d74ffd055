"""A large workspace of PyTorch's own is kept: it is in the peak, and nothing is outside of it.

expect: pass
memory: measured
"""

import torch

DEVICES = ("cuda",)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("room", torch.ones(48 << 20, device="cuda"), persistent=False)

    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
