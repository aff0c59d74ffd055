"""Scratch memory is managed, and lies on the device.

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
GLOBAL = 1  # cudaMemAttachGlobal


def runtime():
    """The CUDA runtime that torch has loaded."""
    with open("/proc/self/maps") as maps:
        path = next(line.split()[-1] for line in maps if "libcudart" in line)
    return ctypes.CDLL(path)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        cuda, self.scratch = runtime(), ctypes.c_void_p()
        assert cuda.cudaMallocManaged(ctypes.byref(self.scratch), SIZE, GLOBAL) == 0
        assert cuda.cudaMemset(self.scratch, 1, SIZE) == 0

    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
