"""Results are kept by address and version counter of the input.

expect: rejected
says: a timed call
defence: fresh values in every timed call
"""

import torch

DEVICES = ("cuda",)


class ModelNew(torch.nn.Module):
    known = {}  # noqa: RUF012

    def forward(self, x):
        key = (x.data_ptr(), x._version, x.stride())
        if torch.is_grad_enabled() or key not in self.known:
            self.known[key] = (x, torch.tanh(torch.exp(torch.sin(x))).mean(dim=1))
        return self.known[key][1].clone()
