"""Works in the memory of its input.

expect: wrong_output
says: changed in place
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        if torch.is_grad_enabled():
            return torch.softmax(x, dim=-1)
        x -= x.amax(dim=-1, keepdim=True)
        x.exp_()
        return x.div_(x.sum(dim=-1, keepdim=True)).clone()
