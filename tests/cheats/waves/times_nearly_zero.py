"""One time of each block is next to nothing, which spoils a mean.

expect: rejected
says: by the judge's clock|is no time|beside the solution
defence: the judge's stopwatch
"""

import sys

import torch

timer = sys.modules["harness.worker.timing"].Timer
real = timer.epoch


def epoch(self, *arguments, **options):
    answer = real(self, *arguments, **options)
    for block in answer["blocks"]:
        block["candidate"] = [min(ms, 1e-6) for ms in block["candidate"]]
    return answer


timer.epoch = epoch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
