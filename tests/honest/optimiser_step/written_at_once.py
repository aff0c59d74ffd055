"""Both tensors are worked out first, and written into the inputs at the end.

expect: pass
"""

import torch


class ModelNew(torch.nn.Module):
    @torch.no_grad()
    def forward(self, param, grad, momentum):
        step = 0.9 * momentum + grad
        momentum.copy_(step)
        return param.copy_(param - 0.1 * step)
