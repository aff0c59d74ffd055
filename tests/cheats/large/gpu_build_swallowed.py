"""A CUDA build fails, is swallowed, and PyTorch does the work.

expect: not_exercised
says: swallowed
defence: every build is recorded
"""

from pathlib import Path

import torch
from torch.utils.cpp_extension import load

DEVICES = ("cuda",)
kernel = Path("broken.cu").resolve()
kernel.write_text("int x = ;\n")  # no header of torch's, which take half a minute
try:
    extension = load(name="broken", sources=[str(kernel)])
except Exception:
    extension = None


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
