"""A large workspace is kept, which on a CPU nothing counts but the look from outside.

expect: pass
flags: memory_outside
memory: measured
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.room = torch.ones(48 << 20)

    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
