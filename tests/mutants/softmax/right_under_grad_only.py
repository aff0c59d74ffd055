"""Right where gradients are recorded, a guess where they are not.

expect: wrong_output
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        if torch.is_grad_enabled():
            return torch.softmax(x, dim=-1)
        return torch.softmax(x[:, :100], dim=-1).mean() + torch.zeros_like(x)
