"""More blocks are answered than were ordered.

expect: rejected
says: blocks answered
defence: what is answered is what was ordered
"""

import sys

import torch

timer = sys.modules["harness.worker.timing"].Timer
real = timer.epoch


def epoch(self, *arguments, **options):
    answer = real(self, *arguments, **options)
    answer["blocks"] *= 50
    return answer


timer.epoch = epoch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
