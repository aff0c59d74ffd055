"""The trees of the first answer are sent again with every nonce.

expect: rejected|wrong_output
says:
defence: secret seeds, a nonce an order
"""

import torch

from harness.shared.channel import Channel

real = Channel.send
first = {}


def send(self, body, trees=None, **options):
    if trees and "results" in trees and "now" not in first:
        first["now"] = trees
    if trees and "results" in trees:
        trees = first["now"]
    real(self, body, trees, **options)


Channel.send = send


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
