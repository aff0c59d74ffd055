"""Fifty children, each of which could do work elsewhere.

expect: wrong_output
says: output
defence: a process group of its own, ended before its files are read
"""

import os
import time

import torch

for _ in range(50):
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return (x * 0).mean(dim=1)
