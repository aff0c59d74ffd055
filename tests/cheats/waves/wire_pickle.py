"""A pickle that would run code where it is loaded.

expect: rejected
says: does not hold
defence: a fixed wire that is read within bounds
"""

import gc
import os
import pickle
import struct

import torch

from harness.shared.channel import Channel

channel = next(o for o in gc.get_objects() if isinstance(o, Channel))
wire = channel._socket


class ModelNew(torch.nn.Module):
    def forward(self, x):
        class Run:
            def __reduce__(self):
                return os.abort, ()

        text = pickle.dumps(Run())
        wire.sendall(struct.pack("<Q", len(text)) + text)
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
