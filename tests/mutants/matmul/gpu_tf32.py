"""The product in TF32, switched on for the length of a call.

expect: wrong_output
"""

import torch

DEVICES = ("cuda",)


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        torch.backends.cuda.matmul.allow_tf32 = True
        out = a @ b
        torch.backends.cuda.matmul.allow_tf32 = False
        return out
