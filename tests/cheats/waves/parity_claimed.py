"""Four times as slow as the reference, and said to take as long: nothing to look into.

expect: rejected
says: by the judge's clock|beside the solution
defence: the judge's stopwatch, whatever is claimed
"""

import sys

import torch

timer = sys.modules["harness.worker.timing"].Timer
real = timer.epoch


def epoch(self, *arguments, **options):
    answer = real(self, *arguments, **options)
    for block in answer["blocks"]:
        block["candidate"] = [ms * 1.01 for ms in block["reference"]]
    return answer


timer.epoch = epoch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        for _ in range(4):
            result = torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
        return result
