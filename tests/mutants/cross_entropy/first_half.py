"""The mean over the first half of the rows.

expect: wrong_output
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, logits, targets):
        half = len(targets) // 2
        return torch.nn.functional.cross_entropy(logits[:half], targets[:half])
