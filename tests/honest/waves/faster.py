"""In place where no gradient is asked for: less memory is moved.

expect: pass
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        if torch.is_grad_enabled():
            return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
        return torch.sin(x).exp_().tanh_().mean(dim=1)
