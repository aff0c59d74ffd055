"""The answer is made in the constructor.

expect: wrong_output
says: output
defence: secret seeds
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        x = torch.randn(64, 1024)
        self.answer = torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)

    def forward(self, x):
        return self.answer + 0 * x.sum()
