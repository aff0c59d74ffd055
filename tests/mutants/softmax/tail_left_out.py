"""Tiles of 32 columns; what is left at the end of a row is never written.

expect: wrong_output
says: NaN
"""

import torch

TILE = 32


class ModelNew(torch.nn.Module):
    def forward(self, x):
        if torch.is_grad_enabled():
            return torch.softmax(x, dim=-1)
        out = torch.empty_like(x)
        whole = x.shape[-1] // TILE * TILE
        out[:, :whole] = torch.softmax(x, dim=-1)[:, :whole]
        return out
