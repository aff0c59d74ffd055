"""The targets are turned into offsets, in place.

expect: wrong_output
says: the input targets was changed in place
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, logits, targets):
        loss = torch.nn.functional.cross_entropy(logits, targets.clone())
        targets += torch.arange(len(targets)) * logits.shape[-1]
        return loss
