"""Sums up in pairs, in float32, from the back.

expect: pass
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        terms = ((x - y) ** 2).reshape(-1).flip(0)
        count = terms.numel()
        while terms.numel() > 1:
            if terms.numel() % 2:
                terms = torch.cat([terms, terms.new_zeros(1)])
            terms = terms[0::2] + terms[1::2]
        return terms[0] / count
