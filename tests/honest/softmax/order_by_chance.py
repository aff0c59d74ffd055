"""Sums up in an order that changes from call to call, as atomics do.

expect: pass
flags: varies
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        e = torch.exp(x - x.amax(dim=-1, keepdim=True))
        total = torch.zeros_like(e[:, :1])
        for column in torch.randperm(x.shape[-1]).tolist():
            total = total + e[:, column : column + 1]
        self.count = getattr(self, "count", 0) + 1
        return e / total * (1 + (self.count % 3) * 1.2e-7)
