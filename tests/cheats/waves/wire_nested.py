"""A message is nested so deep that reading it would overflow the stack.

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
        text = b"[" * 200000
        wire.sendall(struct.pack("<Q", len(text)) + text)
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
