"""One of the two outputs.

expect: wrong_output
says: 1 element,
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return (x.mean(dim=1),)
