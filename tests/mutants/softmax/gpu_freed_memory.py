"""The result lies in memory that was freed, where the reference of KernelBench would lie.

expect: wrong_output
"""

import torch

DEVICES = ("cuda",)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        if torch.is_grad_enabled():
            return torch.softmax(x, dim=-1)
        return torch.empty_like(x)
