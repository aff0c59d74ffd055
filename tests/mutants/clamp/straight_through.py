"""The gradient passes where relu does not.

expect: wrong_gradient
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x, mask):
        return torch.cumsum((x + (torch.relu(x) - x).detach()) * mask, dim=1)
