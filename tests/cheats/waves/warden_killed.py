"""The process that watches over the worker is killed: none of its processes is seen any more.

expect: crash
says: watches over the worker was ended|died of SIGKILL
defence: without the warden nothing is known of a worker; the fork server ends it
"""

import ctypes
import os
import signal
import sys

import torch

timer = sys.modules["harness.worker.timing"].Timer
real = timer.epoch


def epoch(self, *arguments, **options):
    answer = real(self, *arguments, **options)
    for block in answer["blocks"]:
        block["candidate"] = [ms / 20 for ms in block["candidate"]]
    return answer


timer.epoch = epoch

ctypes.CDLL(None).prctl(1, 0)  # PR_SET_PDEATHSIG: not to end with it
os.kill(os.getppid(), signal.SIGKILL)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
