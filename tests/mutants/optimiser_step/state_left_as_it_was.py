"""The right parameters, but the momentum is not carried on.

expect: wrong_output
says: input momentum
"""

import torch


class ModelNew(torch.nn.Module):
    @torch.no_grad()
    def forward(self, param, grad, momentum):
        return param.sub_(0.9 * momentum + grad, alpha=0.1)
