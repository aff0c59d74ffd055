"""Memory is taken from cudaMalloc while the file is imported, before anything is measured.

expect: pass
flags: memory_outside
peak: 320
defence: the judge looks at the device and the processes from outside
memory: measured
"""

import ctypes

import torch

DEVICES = ("cuda",)
torch.cuda.init()
torch.empty(1, device="cuda")
with open("/proc/self/maps") as maps:
    runtime = ctypes.CDLL(next(line.split()[-1] for line in maps if "libcudart" in line))
scratch = ctypes.c_void_p()
assert runtime.cudaMalloc(ctypes.byref(scratch), ctypes.c_size_t(256 << 20)) == 0


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
