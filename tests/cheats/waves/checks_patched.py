"""The harness's own check of what is returned is switched off, for a lazy tensor.

expect: wrong_output
says: output
defence: raw bytes, judged in the judge
"""

import sys

import torch

for name in ("calls", "timing", "session"):
    module = sys.modules[f"harness.worker.{name}"]
    if hasattr(module, "plain"):
        module.plain = lambda value: value


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        plain = torch.Tensor.as_subclass
        return function(*[plain(a, torch.Tensor) if isinstance(a, Lazy) else a for a in arguments])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return (x * 0).mean(dim=1).as_subclass(Lazy)
