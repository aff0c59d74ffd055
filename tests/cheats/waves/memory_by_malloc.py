"""Scratch memory is taken from malloc in the constructor, around PyTorch's allocator.

expect: pass
flags: memory_outside
peak: 256
defence: the judge looks at the processes' memory from outside
memory: measured
"""

import ctypes

import torch

SIZE = 256 << 20


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        self.scratch = ctypes.c_void_p(libc.malloc(ctypes.c_size_t(SIZE)))
        libc.memset(self.scratch, 1, ctypes.c_size_t(SIZE))

    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
