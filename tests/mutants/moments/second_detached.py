"""The second output carries no gradient.

expect: wrong_gradient
says: output[1]: carries no gradient
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x.mean(dim=1), x.detach().var(dim=1)
