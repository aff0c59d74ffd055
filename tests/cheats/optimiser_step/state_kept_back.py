"""In timed calls what is returned is right, but a state beside it is not written.

expect: rejected
says: a timed call.*is not as the reference leaves it
defence: by the judge's clock, inputs that the reference changes are compared
"""

import sys

import torch


def timed():
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name not in ("unit", "_returned"):
        frame = frame.f_back
    return frame is not None


class ModelNew(torch.nn.Module):
    @torch.no_grad()
    def forward(self, param, grad, momentum):
        if timed():
            return param.sub_(torch.add(grad, momentum, alpha=0.9), alpha=0.1)
        momentum.mul_(0.9).add_(grad)
        return param.sub_(momentum, alpha=0.1)
