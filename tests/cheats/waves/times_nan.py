"""The answer to an epoch holds NaN, which is not above any limit.

expect: rejected
says: is no time
defence: times are finite and positive
"""

import sys

import torch

timer = sys.modules["harness.worker.timing"].Timer
real = timer.epoch


def epoch(self, *arguments, **options):
    answer = real(self, *arguments, **options)
    for block in answer["blocks"]:
        block["candidate"] = [float("nan") for ms in block["candidate"]]
    return answer


timer.epoch = epoch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
