"""Big tensors are read whole, whatever their strides."""

from __future__ import annotations

import pytest
import torch

from harness.judge.checking import elements


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
@pytest.mark.parametrize("view", ["flat", "transposed", "expanded"])
def test_chunks_cover_every_element_once(chunk: int, view: str) -> None:
    base = torch.arange(120.0)
    tensor = {
        "flat": base,
        "transposed": base.view(4, 5, 6).permute(2, 0, 1),
        "expanded": base.view(2, 1, 60).expand(2, 3, 60),
    }[view]
    pieces = list(elements.chunks([tensor, tensor.contiguous()], chunk))
    assert torch.equal(torch.cat([p for _, (p, _) in pieces]), tensor.reshape(-1))
    assert torch.equal(torch.cat([p for _, (_, p) in pieces]), tensor.reshape(-1))
    assert all(len(p) <= chunk for _, (p, _) in pieces)
    starts = [s for s, _ in pieces]
    assert starts == [sum(len(p) for _, (p, _) in pieces[:i]) for i in range(len(pieces))]
