"""A daemon in a session of its own goes on after the worker.

expect: wrong_output
says: output
defence: a process group of its own, ended before its files are read
"""

import os
import time

import torch

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return (x * 0).mean(dim=1)
