"""Each order is answered twice, so that the next one finds an answer waiting.

expect: rejected
says: does not hold
defence: every order has a nonce
"""

import torch

from harness.shared.channel import Channel

real = Channel.send


def send(self, body, trees=None, **options):
    real(self, body, trees, **options)
    real(self, body, trees, **options)


Channel.send = send


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
