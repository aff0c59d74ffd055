"""The answer to an epoch is forged: a hundredth of the time.

expect: rejected
says: by the judge's clock|beside the solution
defence: the judge's stopwatch
"""

import sys

import torch

timer = sys.modules["harness.worker.timing"].Timer
real = timer.epoch


def epoch(self, *arguments, **options):
    answer = real(self, *arguments, **options)
    for block in answer["blocks"]:
        block["candidate"] = [ms / 100 for ms in block["candidate"]]
    return answer


timer.epoch = epoch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
