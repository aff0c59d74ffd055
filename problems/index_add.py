"""Aggregation over the edges of a graph: each node sums its neighbours; and its gradient.

    output[v] = sum of x[source[e]] over edges e with target[e] == v   shape (NODES, FEATURES)
    d output / d x [u] = sum of grad_output[target[e]] over edges e with source[e] == u

Hard: rows of 512 bytes gathered from anywhere and added up somewhere else. Degrees are unequal:
some nodes have thousands of edges, many none. Atomics add in an order that varies; sorting by
target costs a pass over the edges. Eager PyTorch writes the gathered rows, 1 GiB, and reads them.

Limit, at size `full` in float32 (x is 64 MiB, an index 16 MiB):
    forward    reads x and both indices once, writes the output       0.16 GiB
    backward   reads grad_output and both indices, writes a gradient  0.16 GiB
Rows come from the cache, if it holds x, or from memory, 1 GiB in all.
"""

import torch
import torch.nn as nn

NODES = 131072
EDGES = 2097152
FEATURES = 128

SIZES = {
    "smoke": {"NODES": 512, "EDGES": 4096, "FEATURES": 64},
    "odd": {"NODES": 509, "EDGES": 4099, "FEATURES": 37},
}


class Model(nn.Module):
    """`index_select` of the sources, `index_add` at the targets."""

    def forward(self, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x).index_add(0, target, x.index_select(0, source))


def skewed(count: int) -> torch.Tensor:
    """Indices of nodes, int64, some far likelier than others, in no order of nodes."""
    return torch.randperm(NODES)[(NODES * torch.rand(count) ** 2).long().clamp_(max=NODES - 1)]


def get_inputs() -> list[torch.Tensor]:
    """(x, source, target): (NODES, FEATURES), and twice (EDGES,) of int64."""
    return [torch.randn(NODES, FEATURES), skewed(EDGES), skewed(EDGES)]


def get_init_inputs() -> list[object]:
    """The model takes no arguments."""
    return []
