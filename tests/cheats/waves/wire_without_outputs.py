"""Answers come without what was asked for.

expect: rejected
says: malformed
defence: missing is no credit
"""

import torch

from harness.shared.channel import Channel

real = Channel.send
Channel.send = lambda self, body, trees=None, **options: real(self, body, None, **options)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
