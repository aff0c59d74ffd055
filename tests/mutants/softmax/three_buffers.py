"""Outputs in three buffers, in turn: the fourth call overwrites what the first returned.

expect: wrong_output
says: over several calls
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.buffers_of_mine = [torch.empty(0) for _ in range(3)]

    def forward(self, x):
        if torch.is_grad_enabled():
            return torch.softmax(x, dim=-1)
        self.buffers_of_mine.append(self.buffers_of_mine.pop(0).resize_(x.shape))
        return torch.softmax(x, dim=-1, out=self.buffers_of_mine[-1])
