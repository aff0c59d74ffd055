import torch
import torch.nn as nn


class Model(nn.Module):
    """A file name with spaces; constants that two inputs share."""

    def __init__(self):
        super().__init__()

    def forward(self, A, B):
        return torch.matmul(A, B)


M = 8 * 2
K = 24
N = 12


def get_inputs():
    A = torch.rand(M, K)
    B = torch.rand(K, N)
    return [A, B]


def get_init_inputs():
    return []  # nothing to hand over
