"""Big tensors by element: in chunks, at places, as float64; nothing is written to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch

SAMPLE = 1 << 20
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
Chunks = Iterable[tuple[int, list[torch.Tensor]]]


def real(tensor: torch.Tensor) -> torch.Tensor:
    """Complex as (real, imaginary) in a new last dimension; others as they are."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def chunks(tensors: Sequence[torch.Tensor], limit: int) -> Iterator[tuple[int, list[torch.Tensor]]]:
    """(flat start, flat pieces of at most `limit` elements) of tensors of one shape, in order.

    Pieces of contiguous tensors are views; of others, copies. All are brought to the device of
    the first: an oracle may live in host memory.
    """
    total, device = tensors[0].numel(), tensors[0].device
    if total <= limit or all(t.is_contiguous() for t in tensors):
        flat = [t.reshape(-1) for t in tensors]
        for start in range(0, total, limit):
            yield start, [t[start : start + limit].to(device) for t in flat]
        return
    rows = tensors[0].shape[0]
    row = total // rows
    step = max(1, limit // row)
    for i in range(0, rows, step):
        part = [t[i] if row > limit else t[i : i + step] for t in tensors]
        for start, pieces in chunks(part, limit):
            yield i * row + start, pieces


def comparable(values: torch.Tensor) -> torch.Tensor:
    """A chunk as what `isclose` is exact on: small floats as float32, unsigned as signed."""
    if values.is_floating_point() and values.element_size() < 4:
        return values.float()
    return values.view(_SIGNED[values.dtype]) if values.dtype in _SIGNED else values


def isclose(actual: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float) -> torch.Tensor:
    """Which elements are within the tolerance; NaN is close to NaN."""
    pair = comparable(actual), comparable(expected)
    return torch.isclose(*pair, rtol=rtol, atol=atol, equal_nan=True)


def finite(values: torch.Tensor) -> torch.Tensor:
    """A float64 copy with 0 for NaN and infinities."""
    return values.to(torch.float64, copy=True).nan_to_num_(0.0, 0.0, 0.0)


def difference(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """left - right in float64, 0 where either is not finite."""
    right = comparable(right) if right.is_floating_point() else right.double()
    return left.to(torch.float64, copy=True).sub_(right).nan_to_num_(0.0, 0.0, 0.0)


def positions(total: int, device: torch.device) -> torch.Tensor:
    """Flat indices, sorted: all, or a fixed random `SAMPLE` of them."""
    if total <= SAMPLE:
        return torch.arange(total, device=device)
    source = torch.Generator().manual_seed(0)
    drawn, _ = torch.randint(total, (SAMPLE,), generator=source).sort()
    return drawn.to(device)


def coordinates(flat: torch.Tensor, shape: Sequence[int]) -> tuple[torch.Tensor, ...]:
    """Flat indices in C order, as one index a dimension."""
    index = []
    for size in reversed(shape):
        index.append(flat % size)
        flat = flat // size
    return tuple(reversed(index))


def take(tensor: torch.Tensor, flat: torch.Tensor) -> torch.Tensor:
    """Elements at flat indices in C order, whatever the strides, without a full copy.

    Unsigned as signed: CUDA cannot index what is wider than a byte and unsigned.
    """
    tensor = tensor.view(_SIGNED.get(tensor.dtype, tensor.dtype))
    return tensor[coordinates(flat, tensor.shape)].expand(flat.shape)
