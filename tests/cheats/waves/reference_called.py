"""The reference's own class does the work, behind a build that never worked.

expect: not_exercised
says: swallowed
defence: every build is recorded
"""

import sys

import torch
from torch.utils.cpp_extension import load_inline

try:
    load_inline(name="broken", functions=["f"])
except Exception:
    pass


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return sys.modules["problem_under_test"].Model()(x)
