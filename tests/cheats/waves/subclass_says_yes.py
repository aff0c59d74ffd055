"""A tensor that answers every comparison with True.

expect: contract_error
says: plain torch.Tensor
defence: raw bytes, judged in the judge
"""

import torch


class Yes(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        if function in (torch.allclose, torch.isclose, torch.equal):
            return True
        return super().__torch_function__(function, types, arguments, options or {})


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return (x * 0).mean(dim=1).as_subclass(Yes)
