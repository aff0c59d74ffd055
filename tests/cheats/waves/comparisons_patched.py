"""All comparisons of torch say yes.

expect: wrong_output
says: output
defence: compared in the judge
"""

import torch

for place in (torch, torch.Tensor):
    for name in ("allclose", "equal"):
        setattr(place, name, lambda *_, **__: True)
torch.testing.assert_close = lambda *_, **__: None
torch.testing._comparison.TensorLikePair.compare = lambda *_: None


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return (x * 0).mean(dim=1)
