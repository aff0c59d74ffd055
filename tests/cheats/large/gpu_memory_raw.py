"""Scratch memory is taken from cudaMalloc in the constructor, around PyTorch's allocator.

expect: pass
flags: memory_outside
peak: 320
defence: the judge looks at the device and the processes from outside
memory: measured
"""

import ctypes

import torch

DEVICES = ("cuda",)
SIZE = ctypes.c_size_t(256 << 20)


def runtime():
    """The CUDA runtime that torch has loaded."""
    with open("/proc/self/maps") as maps:
        path = next(line.split()[-1] for line in maps if "libcudart" in line)
    return ctypes.CDLL(path)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scratch = ctypes.c_void_p()
        assert runtime().cudaMalloc(ctypes.byref(self.scratch), SIZE) == 0

    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
