"""A message announces a tensor of a petabyte.

expect: rejected
says: does not hold
defence: a fixed wire that is read within bounds
"""

import gc
import json
import struct

import torch

from harness.shared.channel import Channel

channel = next(o for o in gc.get_objects() if isinstance(o, Channel))
wire = channel._socket


class ModelNew(torch.nn.Module):
    def forward(self, x):
        spec = {"dtype": "float32", "shape": [1 << 48], "device": "cpu"}
        text = json.dumps({"body": {}, "trees": {}, "tensors": [spec]}).encode()
        wire.sendall(struct.pack("<Q", len(text)) + text)
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
