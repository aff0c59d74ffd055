"""Trees: tensors in nested tuples, lists and dicts, as models take and return them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch


def inexact(tensor: torch.Tensor) -> bool:
    """Whether its numbers have a fraction: floating-point or complex."""
    return tensor.is_floating_point() or tensor.is_complex()


def dense(tensor: torch.Tensor) -> bool:
    """Whether it is a plain array of numbers: not sparse, nested or quantized."""
    return not (tensor.is_nested or tensor.is_quantized) and tensor.layout is torch.strided


def storage_of(tensor: torch.Tensor) -> int:
    """The address of the memory that it lies in; of a dense one."""
    return torch.Tensor.untyped_storage(tensor).data_ptr()


def once(tensor: torch.Tensor) -> torch.Tensor:
    """Each value of an expanded tensor once, as a view that can be written to."""
    for dim, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[dim] > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor


def apart(values: list[Any]) -> list[Any]:
    """`values` where none shares memory with another or in itself: of those that do, copies."""
    seen: set[int] = set()

    def own(tensor: torch.Tensor) -> torch.Tensor:
        address = tensor.untyped_storage().data_ptr()
        alone = tensor.is_contiguous() and address not in seen
        seen.add(address)
        return tensor if alone else tensor.clone()

    return [map_tensors(own, value) for value in values]


def map_tensors(action: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """`value` with `action` applied to each tensor in nested tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        return action(value)
    if isinstance(value, tuple | list):
        items = [map_tensors(action, item) for item in value]
        return type(value)(items) if type(value) in (tuple, list) else tuple(items)
    if isinstance(value, dict):
        return {key: map_tensors(action, item) for key, item in value.items()}
    return value


def walk_tensors(value: Any, path: str) -> Iterator[tuple[str, torch.Tensor]]:
    """(path, tensor) of each tensor in `value`, such as `output[1]`."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, tuple | list):
        for i, item in enumerate(value):
            yield from walk_tensors(item, f"{path}[{i}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from walk_tensors(item, f"{path}[{str(key)!r}]")


def bytes_of(value: Any) -> int:
    """Bytes of all tensors in `value`, each in its own shape."""
    return sum(t.numel() * t.element_size() for _, t in walk_tensors(value, ""))


def stack(values: list[Any]) -> Any:
    """Trees of one structure as one tree, whose tensors have a first dimension more. Flat ones
    of different length, as where a shape hangs on values, are filled up with zeros.

    Raises `ValueError` where they differ in structure."""
    first = values[0]
    if isinstance(first, torch.Tensor):
        if first.ndim == 1 and any(value.shape != first.shape for value in values):
            return torch.nn.utils.rnn.pad_sequence(values, batch_first=True)
        return torch.stack(values)
    if isinstance(first, tuple | list):
        items = [stack(list(column)) for column in zip(*values, strict=True)]
        return tuple(items) if isinstance(first, tuple) else items
    if isinstance(first, dict):
        return {key: stack([value[key] for value in values]) for key in first}
    return first


def apart_from(value: Any, others: Iterable[torch.Tensor]) -> Any:
    """The tree `value` with copies of the tensors that share memory with one of `others`. What is
    not dense shares none."""
    taken = {storage_of(tensor) for tensor in others if dense(tensor)}
    return map_tensors(lambda t: t.clone() if dense(t) and storage_of(t) in taken else t, value)
