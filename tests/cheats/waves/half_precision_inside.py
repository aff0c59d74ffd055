"""Everything is computed in float16.

expect: wrong_output
says: error|wrong
defence: the error ratio
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.half()
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1).float()
