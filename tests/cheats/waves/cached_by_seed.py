"""Results are kept by the seed of torch, which each check sets anew.

expect: rejected
says: a timed call
defence: fresh values in every timed call
"""

import torch


class ModelNew(torch.nn.Module):
    known = {}  # noqa: RUF012

    def forward(self, x):
        key = torch.initial_seed()
        if torch.is_grad_enabled() or key not in self.known:
            self.known[key] = (torch.tanh(torch.exp(torch.sin(x))).mean(dim=1), x.clone())
            return self.known[key][0]
        output, seen = self.known[key]
        return (
            output.clone()
            if x.is_contiguous() and self.timed(x, seen)
            else torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
        )

    def timed(self, x, seen):
        return not torch.equal(x, seen)
