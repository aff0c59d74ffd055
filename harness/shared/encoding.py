"""Trees as JSON and bytes of tensors: what a message of channel.py is made of.

A *tree* (tensor, tuple, list, dict, None, number) is JSON in which a tensor is its index; of each
tensor a *spec*, JSON too, says dtype, shape and device. What is read may be anybody's: what does
not add up is a `ValueError`, `KeyError`, `TypeError` or `OverflowError`, and nothing is executed.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from harness.shared import cuda_ipc

IPC_THRESHOLD_BYTES = 1 << 20  # below, copying beats mapping
MAX_DIMENSIONS = 64
MAX_ELEMENTS = 1 << 59  # so that bytes stay within 63 bits
MAX_DEPTH = 50  # of containers in one another
_DTYPES = {
    str(d).removeprefix("torch."): d
    for d in (
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64,
        torch.complex128, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint64,
        torch.uint32, torch.uint16, torch.uint8, torch.bool,
    )
}  # fmt: skip
_NAMES = {d: name for name, d in _DTYPES.items()}

Tree = Any  # torch.Tensor | tuple | list | dict | None | bool | int | float, nested


class CannotTravel(TypeError):
    """A tree holds what is neither tensor nor number, a tensor of a type that is not known, or
    keys that are the same as text."""


def text_keys(tree: Tree) -> Tree:
    """`tree` with the keys of its dicts as text, as they travel from a worker to the judge.

    Raises `CannotTravel` where two of a dict are the same then, such as 1 and "1".
    """
    if isinstance(tree, tuple | list):
        items = [text_keys(item) for item in tree]
        return tuple(items) if isinstance(tree, tuple) else items
    if isinstance(tree, dict):
        known: dict[str, Tree] = {}
        for key, item in tree.items():
            if str(key) in known:
                raise CannotTravel(f"two keys of a dict are {str(key)!r}: they must differ as text")
            known[str(key)] = text_keys(item)
        return known
    return tree


def written_out(tensor: torch.Tensor) -> torch.Tensor:
    """Contiguous, with its values in memory: a conjugate is a mark on those of another tensor.

    Through `torch.Tensor` unbound: a subclass or an instance attribute must not change what is
    shipped.
    """
    plain = torch.Tensor.resolve_neg(torch.Tensor.resolve_conj(torch.Tensor.detach(tensor)))
    return torch.Tensor.contiguous(plain)


def specify(tensor: torch.Tensor, *, ipc: bool) -> tuple[dict[str, Any], torch.Tensor | None]:
    """The JSON of a contiguous tensor, and what its bytes follow from (None: shared by handle)."""
    spec: dict[str, Any] = {
        "dtype": _NAMES[tensor.dtype],
        "shape": list(tensor.shape),
        "device": tensor.device.type,
    }
    nbytes = tensor.numel() * tensor.element_size()
    if ipc and tensor.is_cuda and nbytes >= IPC_THRESHOLD_BYTES and tensor.data_ptr() % 256 == 0:
        torch.cuda.synchronize()
        spec["ipc"] = cuda_ipc.export(tensor)
        return spec, None
    return spec, tensor.cpu()


def layout_of(spec: dict[str, Any]) -> tuple[torch.dtype, tuple[int, ...], int]:
    """dtype, shape and bytes of a tensor, checked. Raises ValueError, KeyError, TypeError."""
    dtype = _DTYPES[spec["dtype"]]
    shape = tuple(spec["shape"])
    if not all(type(n) is int and n >= 0 for n in shape) or len(shape) > MAX_DIMENSIONS:
        raise ValueError(f"shape {shape}")
    if math.prod(max(n, 1) for n in shape) > MAX_ELEMENTS:  # torch refuses it even if one is 0
        raise ValueError(f"shape {shape}")
    if spec.get("device") not in (("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)):
        raise ValueError(f"device {spec.get('device')!r}")
    if "ipc" in spec and spec["device"] != "cuda":
        raise ValueError("only CUDA memory is shared by handle")
    return dtype, shape, math.prod(shape) * dtype.itemsize


def raw_bytes(tensor: torch.Tensor) -> memoryview:
    """Those of a contiguous tensor of the CPU. A single value is that, whatever its strides."""
    flat = torch.as_strided(tensor, (tensor.numel(),), (1,))
    array: Any = flat.view(torch.uint8).numpy()
    return memoryview(array)


def encode(tree: Tree, tensors: list[torch.Tensor]) -> Any:
    """A tree as JSON. Containers are told apart by their one key."""
    if isinstance(tree, torch.Tensor):
        if tree.layout is not torch.strided or tree.dtype not in _NAMES:
            raise CannotTravel(f"a {tree.layout} tensor of {tree.dtype} cannot be compared")
        tensors.append(tree)
        return {"tensor": len(tensors) - 1}
    if isinstance(tree, tuple | list):
        kind = "tuple" if isinstance(tree, tuple) else "list"
        return {kind: [encode(item, tensors) for item in tree]}
    if isinstance(tree, dict):
        return {"dict": [[str(k), encode(v, tensors)] for k, v in tree.items()]}
    if tree is None or isinstance(tree, bool | int):
        return {"value": tree}
    if isinstance(tree, float):
        return {"float": repr(tree)}
    raise CannotTravel(
        f"a {type(tree).__name__} cannot be compared; tensors and numbers can, in tuples, "
        "lists and dicts too"
    )


def decode(node: Any, tensors: list[torch.Tensor], depth: int = 0) -> Tree:
    """The tree that `encode` made `node` of. Raises `ValueError`, `TypeError`, `OverflowError`."""
    if not isinstance(node, dict) or len(node) != 1 or depth > MAX_DEPTH:
        raise ValueError("no container with one key, or too deep in others")
    ((kind, content),) = node.items()
    if kind == "tensor" and isinstance(content, int) and 0 <= content < len(tensors):
        return tensors[content]
    if kind in ("tuple", "list"):
        items = [decode(item, tensors, depth + 1) for item in content]
        return tuple(items) if kind == "tuple" else items
    if kind == "dict":
        return {str(key): decode(value, tensors, depth + 1) for key, value in content}
    if kind == "value" and (content is None or isinstance(content, bool | int)):
        return content
    if kind == "float":
        return float(content)
    raise ValueError(repr(kind))
