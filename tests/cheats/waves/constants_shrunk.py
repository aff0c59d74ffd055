"""The problem's constants are set smaller, as if in its own module.

expect: wrong_output
says: shape
defence: the judge draws inputs of its own
"""

import sys

import torch


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        sys.modules["problem_under_test"].ROWS = 4

    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
