"""Gradient descent with momentum, in place: inputs are changed by design."""

import torch

COUNT = 1031
GRAD_INPUTS = ()


class Model(torch.nn.Module):
    @torch.no_grad()
    def forward(self, param, grad, momentum):
        momentum.mul_(0.9).add_(grad)
        param.sub_(momentum, alpha=0.1)
        return param


def get_inputs():
    return [torch.randn(COUNT) for _ in range(3)]
