"""Right without gradients; with them, the output is scaled up.

expect: wrong_output
says: everywhere 1.01x
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.softmax(x, dim=-1)
        return out * 1.01 if torch.is_grad_enabled() else out
