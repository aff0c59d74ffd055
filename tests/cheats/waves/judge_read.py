"""The memory and environment of every other process are searched.

expect: wrong_output
says: output
defence: a pid namespace
needs: strict
"""

import os

import torch

for name in os.listdir("/proc"):
    if name.isdigit() and int(name) != os.getpid():
        with open(f"/proc/{name}/cmdline", "rb") as line:
            if b"multiprocessing" in line.read():
                raise RuntimeError("the judge can be seen")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return (x * 0).mean(dim=1)
