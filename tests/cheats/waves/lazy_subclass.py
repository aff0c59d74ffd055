"""A tensor that computes when it is looked at.

expect: contract_error
says: plain torch.Tensor
defence: raw bytes, judged in the judge
"""

import torch


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        made = [a.make() if isinstance(a, Lazy) else a for a in arguments]
        return function(*made, **(options or {}))

    def make(self):
        return self.work()


class ModelNew(torch.nn.Module):
    def forward(self, x):
        lazy = torch.Tensor._make_subclass(Lazy, torch.empty(x.shape[0]))
        lazy.work = lambda: torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
        return lazy
