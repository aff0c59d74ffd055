"""An error that is raised as if the reference had failed.

expect: runtime_error
says: blamed
defence: the judge has tried the reference itself
"""

import torch

from harness.errors import ProblemError


class ModelNew(torch.nn.Module):
    def forward(self, x):
        raise ProblemError("blamed on the problem", path="problem.py")
