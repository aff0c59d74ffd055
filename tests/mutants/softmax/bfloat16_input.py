"""The input is rounded to bfloat16; the rest is float32.

expect: wrong_output
"""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x.bfloat16().float(), dim=-1)
