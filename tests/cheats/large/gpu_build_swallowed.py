"""A CUDA build fails, is swallowed, and PyTorch does the work.

expect: not_exercised
says: swallowed
defence: every build is recorded
"""

import torch
from torch.utils.cpp_extension import load_inline

DEVICES = ("cuda",)
try:
    extension = load_inline(name="broken", cpp_sources="", cuda_sources="int x = ;")
except Exception:
    extension = None


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
