"""Times are forged where new values cost more than a call, so that a clock sees mostly those.

expect: rejected
says: by the judge's clock|nothing was met before
defence: the judge's stopwatch renews inputs in part
"""

import sys

import torch

timer = sys.modules["harness.worker.timing"].Timer
real = timer.epoch


def epoch(self, *arguments, **options):
    answer = real(self, *arguments, **options)
    for block in answer["blocks"]:
        block["candidate"] = [ms / 4 for ms in block["candidate"]]
    return answer


timer.epoch = epoch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x.sum(dim=1)
