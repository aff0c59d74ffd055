"""Copies where the reference returns views.

expect: pass
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        parts = [x[:, 1:].contiguous(), x.reshape(-1)[:7].clone()]
        return {"turned": x.t().contiguous(), 2: parts}
