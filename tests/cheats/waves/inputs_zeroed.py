"""The input is zeroed, so that any reference computed from it agrees.

expect: wrong_output
says: output
defence: the judge draws inputs of its own
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x.data.zero_()
        return x.mean(dim=1) + 0.761594156
