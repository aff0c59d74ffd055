"""Times are forged, and to match, nine calls in ten are left out in one of the judge's readings.

expect: rejected
says: a timed call
defence: of the reading that counts, several calls are looked at
"""

import sys

import torch

timer = sys.modules["harness.worker.timing"].Timer
real_epoch, real_stopwatch = timer.epoch, timer.stopwatch


def epoch(self, *arguments, **options):
    answer = real_epoch(self, *arguments, **options)
    for block in answer["blocks"]:
        block["candidate"] = [ms / 8 for ms in block["candidate"]]
    return answer


def stopwatch(self, *arguments, **options):
    ModelNew.readings += 1
    return real_stopwatch(self, *arguments, **options)


timer.epoch, timer.stopwatch = epoch, stopwatch


class ModelNew(torch.nn.Module):
    readings = calls = 0

    def forward(self, x):
        ModelNew.calls += 1
        if ModelNew.readings == 3 and ModelNew.calls % 10:
            return x[:, 0].clone()
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
