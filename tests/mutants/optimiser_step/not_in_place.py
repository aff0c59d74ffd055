"""The right parameters, but in a new tensor.

expect: wrong_output
says: input param
"""

import torch


class ModelNew(torch.nn.Module):
    @torch.no_grad()
    def forward(self, param, grad, momentum):
        momentum.mul_(0.9).add_(grad)
        return param - 0.1 * momentum
