"""Another card is made visible at import, for half of the work.

expect: runtime_error
says: no second device|device=1, num_gpus=1
defence: the driver has read which devices it may show before
"""

import os

os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"

import torch

DEVICES = ("cuda",)


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        if torch._C._cuda_getDeviceCount() < 2:
            raise RuntimeError("no second device")
        half, other = len(a) // 2, torch.device("cuda", 1 - a.device.index)
        theirs = a[half:].to(other) @ b.to(other)
        return torch.cat([a[:half] @ b, theirs.to(a.device)])
