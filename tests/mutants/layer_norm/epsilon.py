"""Another epsilon: no matter for inputs of size one.

expect: wrong_output
"""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x):
        return torch.nn.functional.layer_norm(
            x, x.shape[-1:], self.norm.weight, self.norm.bias, 1e-8
        )
