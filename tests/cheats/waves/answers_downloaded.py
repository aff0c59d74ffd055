"""The answer comes over the network.

expect: load_error
says: unreachable
defence: a network namespace
needs: strict
"""

import socket

import torch

socket.create_connection(("192.0.2.1", 80), timeout=20)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
