"""No buffer for a mask that is known.

expect: pass
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, length):
        super().__init__()

    def forward(self, scores):
        return scores.tril().cumsum(dim=-1)
