"""One of three outputs is that of the first call.

expect: wrong_output
says: output['2'][1]
"""

import torch


class ModelNew(torch.nn.Module):
    last = None

    def forward(self, x):
        if self.last is None or torch.is_grad_enabled():
            self.last = x.reshape(-1)[:7].clone()
        return {"turned": x.t(), 2: [x[:, 1:], self.last]}
