"""The convolution in TF32, which PyTorch's own default allows.

expect: wrong_output
"""

import torch

DEVICES = ("cuda",)


class ModelNew(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = torch.nn.Conv2d(channels, 2 * channels, 3, padding=1)

    def forward(self, x):
        torch.backends.cudnn.allow_tf32 = True
        out = self.conv(x)
        torch.backends.cudnn.allow_tf32 = False
        return out
