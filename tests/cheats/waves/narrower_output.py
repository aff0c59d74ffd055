"""The output is float16, for which tolerances are wider.

expect: wrong_output
says: float16
defence: the type is the reference's
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1).half()
