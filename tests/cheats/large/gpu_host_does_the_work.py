"""Times are forged, and what the judge times is worked out by the host: the device is hardly busy.

expect: rejected
says: by the judge's clock
defence: the judge's stopwatch, whatever the device was busy with
"""

import os
import sys

import torch

DEVICES = ("cuda",)
timer = sys.modules["harness.worker.timing"].Timer
real_epoch, real_stopwatch = timer.epoch, timer.stopwatch


def epoch(self, *arguments, **options):
    answer = real_epoch(self, *arguments, **options)
    for block in answer["blocks"]:
        block["candidate"] = [ms / 4 for ms in block["candidate"]]
    return answer


def stopwatch(self, *arguments, **options):
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    ModelNew.clocked = True
    try:
        return real_stopwatch(self, *arguments, **options)
    finally:
        ModelNew.clocked = False


timer.epoch, timer.stopwatch = epoch, stopwatch


def waves(x):
    return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)


class ModelNew(torch.nn.Module):
    clocked = False

    def forward(self, x):
        return waves(x.cpu()).to(x.device) if self.clocked else waves(x)
