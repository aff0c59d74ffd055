"""A message says that it is 2^60 bytes long.

expect: rejected
says: does not hold
defence: a fixed wire that is read within bounds
"""

import gc
import struct

import torch

from harness.shared.channel import Channel

channel = next(o for o in gc.get_objects() if isinstance(o, Channel))
wire = channel._socket


class ModelNew(torch.nn.Module):
    def forward(self, x):
        wire.sendall(struct.pack("<Q", 1 << 60))
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
