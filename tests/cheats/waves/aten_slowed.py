"""An operation of the reference's is registered anew through torch.library, and slow.

expect: rejected
says: beside the solution
defence: the reference timed where no solution is loaded
"""

import time

import torch

library = torch.library.Library("aten", "IMPL")


def slow(x):
    time.sleep(0.002)
    return torch.sub(1, torch.exp(x.mul(2)).add(1).reciprocal().mul(2))


library.impl("tanh", slow, "CPU")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.sigmoid(2 * torch.exp(torch.sin(x))).mul(2).sub(1).mean(dim=1)
