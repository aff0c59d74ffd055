"""Results are kept by the tensor object.

expect: rejected
says: a timed call
defence: fresh values in every timed call
"""

import torch


class ModelNew(torch.nn.Module):
    known = {}  # noqa: RUF012

    def forward(self, x):
        if torch.is_grad_enabled():
            return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
        version, output, _ = self.known.get(id(x), (None, None, None))
        if version != x._version:
            output = torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
            self.known[id(x)] = (x._version, output, x)
        return output.clone()
