"""Kernels that only read: what reading memory can reach at most.

PyTorch's own sum reads at 4.3 TB/s on an H200 where plain CUDA kernels reach 4.6, so it cannot
stand for the limit. Imported only where triton is.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

#: (elements of each source that a program reads, its warps). Which is fastest differs by card.
SHAPES = ((8192, 8), (8192, 32), (4096, 8))
SMALLEST = min(block for block, _ in SHAPES)


@triton.jit  # type: ignore[untyped-decorator]
def _sum_blocks(source, partial, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """partial[i] = sum of the i-th block of `source`."""
    block = tl.program_id(0).to(tl.int64)
    offsets = block * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(source + offsets, mask=offsets < count, other=0.0)
    tl.store(partial + block, tl.sum(values))


@triton.jit  # type: ignore[untyped-decorator]
def _dot_blocks(left, right, partial, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """partial[i] = dot product of the i-th blocks of `left` and `right`."""
    block = tl.program_id(0).to(tl.int64)
    offsets = block * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    a = tl.load(left + offsets, mask=mask, other=0.0)
    b = tl.load(right + offsets, mask=mask, other=0.0)
    tl.store(partial + block, tl.sum(a * b))


def read(source: torch.Tensor, partial: torch.Tensor, block: int, warps: int) -> None:
    """Read all of `source` (float32, CUDA); `partial` holds one float for each `block` of it."""
    grid = (triton.cdiv(source.numel(), block),)
    _sum_blocks[grid](source, partial, source.numel(), BLOCK=block, num_warps=warps)


def read_two(
    left: torch.Tensor, right: torch.Tensor, partial: torch.Tensor, block: int, warps: int
) -> None:
    """Read two tensors of one size side by side, as a loss does; otherwise as `read`."""
    grid = (triton.cdiv(left.numel(), block),)
    _dot_blocks[grid](left, right, partial, left.numel(), BLOCK=block, num_warps=warps)
