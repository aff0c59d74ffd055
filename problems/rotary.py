"""Rotary position embedding of queries and keys, and its gradient, the rotation back.

    rotated(u)[d] = u[d] * cos[t, d] + half_turn(u)[d] * sin[t, d]
    half_turn(u) = (-second half of u, first half of u)
    output = (rotated(query), rotated(key))       each (BATCH, LENGTH, their heads, DEPTH)

Hard: bandwidth over two tensors of different size in one launch, small tables that should stay in
the cache, and pairs of elements that lie half a row apart. Eager PyTorch makes the half turn in
memory, and four passes more.

Limit, at size `full` in float32 (query 256 MiB, key 64 MiB, the tables 2 MiB each):
    forward    reads query and key, writes as much                    0.63 GiB
    backward   reads both gradients, writes as much                   0.63 GiB
"""

import torch
import torch.nn as nn

BATCH = 4
LENGTH = 4096
QUERY_HEADS = 32
KEY_HEADS = 8
DEPTH = 128

SIZES = {
    "smoke": {"BATCH": 2, "LENGTH": 64, "QUERY_HEADS": 8, "KEY_HEADS": 2, "DEPTH": 64},
    "odd": {"BATCH": 3, "LENGTH": 67, "QUERY_HEADS": 5, "KEY_HEADS": 3, "DEPTH": 34},
}

GRAD_INPUTS = ("query", "key")


def rotated(u: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """u (BATCH, LENGTH, heads, DEPTH), turned by the angles of cos and sin (LENGTH, 1, DEPTH)."""
    first, second = u.chunk(2, dim=-1)
    return u * cos + torch.cat((-second, first), dim=-1) * sin


class Model(nn.Module):
    """Queries and keys turned by the angles whose cosines and sines are given."""

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        cos, sin = cos[:, None, :], sin[:, None, :]
        return rotated(query, cos, sin), rotated(key, cos, sin)


def get_inputs() -> list[torch.Tensor]:
    """(query, key, cos, sin); cos and sin are (LENGTH, DEPTH), their two halves equal.

    The first position and the base of the frequencies differ from draw to draw, as in a cache
    of keys that goes on, so tables cannot be kept.
    """
    query = torch.randn(BATCH, LENGTH, QUERY_HEADS, DEPTH)
    key = torch.randn(BATCH, LENGTH, KEY_HEADS, DEPTH)
    base = 1e4 * 10 ** torch.rand(())
    frequencies = base ** -(torch.arange(0, DEPTH, 2) / DEPTH)
    positions = torch.randint(4096, ()) + torch.arange(LENGTH)
    angles = torch.outer(positions.float(), frequencies).repeat(1, 2)
    return [query, key, angles.cos(), angles.sin()]


def get_init_inputs() -> list[object]:
    """The model takes no arguments."""
    return []
