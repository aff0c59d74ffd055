"""Results are kept by the shape of the input.

expect: wrong_output
says: over several calls|output
defence: new values in the same memory
"""

import torch


class ModelNew(torch.nn.Module):
    known = {}  # noqa: RUF012

    def forward(self, x):
        if torch.is_grad_enabled():
            return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
        return self.known.setdefault(
            x.shape, torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
        ).clone()
