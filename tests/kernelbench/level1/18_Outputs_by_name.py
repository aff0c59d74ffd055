import torch
import torch.nn as nn


class Model(nn.Module):
    """Outputs in a dict, and a dict among the inputs."""

    def forward(self, named):
        return {"sum": named["a"] + named["b"], "product": named["a"] * named["b"]}


rows = 6


def get_inputs():
    return [{"a": torch.randn(rows, 7), "b": torch.randn(rows, 7)}]


def get_init_inputs():
    return []
