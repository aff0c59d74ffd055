"""A workspace is kept from call to call, by shape; what it holds is written anew each time.

expect: pass
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.room = {}

    def forward(self, x):
        if x.requires_grad:
            return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
        room = self.room.setdefault(x.shape, torch.empty(x.shape))
        torch.sin(x, out=room)
        return room.exp_().tanh_().mean(dim=1)
