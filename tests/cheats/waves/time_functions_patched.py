"""Every clock of Python is patched, behind a build that never worked.

expect: not_exercised
says: swallowed
defence: clock functions are bound before the solution; builds are recorded
"""

import time

import torch
from torch.utils.cpp_extension import load_inline

for name in ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time"):
    setattr(time, name, lambda: 1)
try:
    extension = load_inline(name="never")
except Exception:
    extension = None


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
