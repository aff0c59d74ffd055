"""The product of matrices rounded to float16, added up in float32.

expect: wrong_output
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        return a.half().float() @ b.half().float()
