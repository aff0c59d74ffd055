"""By hand, from integer targets.

expect: pass
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, logits, targets):
        top = logits.amax(dim=-1, keepdim=True).detach()
        shifted = logits - top
        total = torch.exp(shifted).sum(dim=-1).log()
        return (total - shifted.gather(1, targets.unsqueeze(1)).squeeze(1)).mean()
