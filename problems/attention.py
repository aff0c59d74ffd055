"""Causal scaled dot-product attention, and the gradients of query, key and value.

    scores = query @ key.T / sqrt(DEPTH), where key position <= query position
    output = softmax(scores) @ value                      shape (BATCH, HEADS, LENGTH, DEPTH)

Hard: the scores are 1 GiB that must never reach the memory: they are made, exponentiated and used
tile by tile, with a running maximum. Half of the tiles are masked and must not be computed.
Backward makes the scores again, and sums along both of their dimensions.

Limit, at size `full`: 34 GFLOP forward, 86 GFLOP backward (counting the unmasked half), or 0.5 ms
and 1.3 ms at 67 TFLOP/s of float32. Bytes: 128 MiB forward. The limit that is reported
counts masked scores as well, as PyTorch's formula does.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 4
HEADS = 16
LENGTH = 2048
DEPTH = 64

SIZES = {
    "smoke": {"BATCH": 2, "HEADS": 4, "LENGTH": 96, "DEPTH": 64},
    "odd": {"BATCH": 3, "HEADS": 3, "LENGTH": 67, "DEPTH": 40},  # depths are multiples of 8
}


class Model(nn.Module):
    """`scaled_dot_product_attention` with `is_causal`."""

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(query, key, value), each (BATCH, HEADS, LENGTH, DEPTH). Heads differ in how sharply they
    attend, from nearly everywhere alike to a few positions."""
    query, key, value = (torch.randn(BATCH, HEADS, LENGTH, DEPTH) for _ in range(3))
    query *= log_uniform(0.5, 3.0, BATCH, HEADS, 1, 1)
    return [query, key, value]


def get_init_inputs() -> list[object]:
    """The model takes no arguments."""
    return []
