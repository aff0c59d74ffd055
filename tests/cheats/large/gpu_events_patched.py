"""torch.cuda.Event is replaced by one that measures a tenth.

expect: not_exercised
says: swallowed
defence: events are bound before the solution; builds are recorded
"""

import torch
from torch.utils.cpp_extension import load_inline

DEVICES = ("cuda",)
real = torch.cuda.Event.elapsed_time
torch.cuda.Event.elapsed_time = lambda self, other: real(self, other)
try:
    extension = load_inline(name="never")
except Exception:
    extension = None


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
