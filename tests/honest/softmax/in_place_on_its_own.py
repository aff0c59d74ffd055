"""Works in place, in memory of its own that was not initialised.

expect: pass
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        if torch.is_grad_enabled():
            return torch.softmax(x, dim=-1)
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        torch.sub(x, x.amax(dim=-1, keepdim=True), out=out)
        out.exp_()
        return out.div_(out.sum(dim=-1, keepdim=True))
