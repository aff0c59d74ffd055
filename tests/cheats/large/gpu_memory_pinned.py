"""A staging buffer lies in pinned memory of the host.

expect: pass
flags: memory_outside
peak: 320
defence: the judge looks at the device and the processes from outside
memory: measured
"""

import torch

DEVICES = ("cuda",)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.staging = torch.zeros(256 << 20, dtype=torch.uint8, device="cpu").pin_memory()

    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
