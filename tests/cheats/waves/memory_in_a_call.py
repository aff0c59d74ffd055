"""A call takes memory from malloc and gives it back at once.

Only where its memory is measured: written to in every call, it would make the tests slow.

expect: pass
flags: memory_outside
peak: 256
defence: the kernel's high-water mark, set back by the judge
memory: measured
"""

import ctypes
import sys

import torch

SIZE = ctypes.c_size_t(256 << 20)
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p


def measured():
    """Whether memory is being measured."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "peak":
        frame = frame.f_back
    return frame is not None


class ModelNew(torch.nn.Module):
    def forward(self, x):
        if measured():
            scratch = ctypes.c_void_p(libc.malloc(SIZE))
            libc.memset(scratch, 1, SIZE)
            libc.free(scratch)
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
