"""All outputs share one buffer, which the next call overwrites.

expect: wrong_output
says: shares memory
"""

import torch


class ModelNew(torch.nn.Module):
    buffer = None

    def forward(self, x):
        if torch.is_grad_enabled():
            return torch.softmax(x, dim=-1)
        if self.buffer is None:
            self.buffer = torch.empty_like(x)
        return torch.softmax(x, dim=-1, out=self.buffer)
