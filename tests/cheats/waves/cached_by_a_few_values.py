"""Results are kept by the corners of the input.

expect: rejected|wrong_output
says:
defence: fresh values in every timed call
"""

import torch


class ModelNew(torch.nn.Module):
    known = {}  # noqa: RUF012

    def forward(self, x):
        key = (float(x[0, 0]), float(x[-1, -1]))
        if torch.is_grad_enabled() or key not in self.known:
            self.known[key] = torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
        return self.known[key].clone()
