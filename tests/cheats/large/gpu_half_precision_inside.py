"""Everything is computed in bfloat16.

expect: wrong_output
says:
defence: the error ratio
"""

import torch

DEVICES = ("cuda",)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.bfloat16()
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1).float()
