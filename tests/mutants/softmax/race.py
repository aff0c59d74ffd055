"""Now and then one row is lost, as in a race.

expect: wrong_output
"""

import torch


class ModelNew(torch.nn.Module):
    calls = 0

    def forward(self, x):
        out = torch.softmax(x, dim=-1)
        ModelNew.calls += 1
        if ModelNew.calls % 7 == 0:
            out = torch.cat([torch.zeros_like(out[:1]), out[1:]])
        return out
