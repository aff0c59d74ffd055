"""A mask of its own: nothing that could be compared.

expect: contract_error
says: draws random numbers
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x):
        if self.training:
            x = x * (torch.rand(x.shape[::-1]).t() < 0.7) / 0.7
        return self.linear(x)
