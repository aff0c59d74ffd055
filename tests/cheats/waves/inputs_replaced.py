"""The problem's get_inputs is replaced by one that always gives ones.

expect: wrong_output
says: output
defence: the judge draws inputs of its own
"""

import sys

import torch


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        sys.modules["problem_under_test"].get_inputs = lambda: [torch.ones(64, 1024)]

    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
