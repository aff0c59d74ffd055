"""Really faster: only what is new is allocated.

expect: pass
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.exp(torch.sin(x)).tanh_().mean(dim=1)
