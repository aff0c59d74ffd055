"""Right, and twice as slow as the reference: that is no reason to reject it.

expect: pass
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        once = torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
        return (once + torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)) / 2
