"""Every module but the solution's own is called slowly.

expect: rejected
says: beside the solution
defence: the reference timed where no solution is loaded
"""

import time

import torch

real = torch.nn.Module.__call__


def call(self, *arguments, **options):
    if type(self).__name__ == "Model":
        time.sleep(0.002)
    return real(self, *arguments, **options)


torch.nn.Module.__call__ = call


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
