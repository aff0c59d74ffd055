"""The output is pinned memory of the host, copied to without waiting.

expect: wrong_output
says: device|cpu
defence: the device is the reference's
"""

import torch

DEVICES = ("cuda",)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], pin_memory=True)
        return out.copy_(torch.tanh(torch.exp(torch.sin(x))).mean(dim=1), non_blocking=True)
