"""Bytes that are no message are written to the channel.

expect: rejected
says: does not hold
defence: a fixed wire that is read within bounds
"""

import gc

import torch

from harness.shared.channel import Channel

channel = next(o for o in gc.get_objects() if isinstance(o, Channel))
wire = channel._socket


class ModelNew(torch.nn.Module):
    def forward(self, x):
        wire.sendall(b"pass pass pass pass")
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
