"""Scratch memory is a file's, mapped: its pages are not counted as the process's own.

expect: pass
flags: memory_outside
peak: 256
defence: the kernel's high-water mark, mapped files included
memory: measured
"""

import mmap

import torch

SIZE = 256 << 20
with open("scratch", "w+b") as file:
    file.truncate(SIZE)
    scratch = mmap.mmap(file.fileno(), SIZE)
for page in range(0, SIZE, mmap.PAGESIZE):
    scratch[page] = 1


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
