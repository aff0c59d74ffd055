"""Half of the inner dimension, scaled up.

expect: wrong_output
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        half = a.shape[1] // 2
        return 2**0.5 * (a[:, :half] @ b[:half])
