"""The same random numbers, and then some rows at a time.

expect: pass
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = torch.nn.functional.dropout(x, 0.5)
        parts = [torch.lgamma(p.abs() + 2) * (1 + 0.05 * torch.sin(7 * p)) for p in x.chunk(8)]
        return torch.cat([part.amax(dim=1) for part in parts])
