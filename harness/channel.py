"""The wire between judge and worker: JSON and raw tensor bytes, never pickle.

A message is one JSON object (length first) followed by the raw bytes of its tensors in order.
A *tree* (tensor, tuple, list, dict, None, number) travels as JSON in which a tensor is its
index. Large CUDA tensors travel as IPC handles instead of bytes, where the sender asks for it.

Everything read is bounded: by a deadline, by the size of the JSON, and by a cap on tensor
bytes that the reader sets. Nothing read is ever executed. The reader checks shapes, dtypes
and sizes itself; what does not add up is a `ChannelError`.

Not covered: a sender that goes on writing into memory which it has shared by IPC.
"""

from __future__ import annotations

import json
import math
import select
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any

import torch

from harness import cuda_ipc

MAX_JSON_BYTES = 8 << 20  # which Python may take 40 times as much memory to hold
IPC_THRESHOLD_BYTES = 1 << 20  # below, copying beats mapping
MAX_DIMENSIONS = 64
MAX_ELEMENTS = 1 << 59  # so that bytes stay within 63 bits
_LENGTH = struct.Struct("<Q")
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


class ChannelError(Exception):
    """The peer sent something that is not a message."""


class CannotTravel(TypeError):
    """A tree holds what is neither tensor nor number, a tensor of a type that is not known, or
    keys that are the same as text."""


class ChannelClosed(ChannelError):
    """The peer is gone."""


class ChannelTimeout(ChannelError):
    """The peer did not answer by the deadline."""


@dataclass(frozen=True, kw_only=True)
class Message:
    """`body`: the JSON object. `trees`: the named trees that came with it.

    `close` unmaps memory shared by the peer; tensors of `trees` must not be used after it.
    """

    body: dict[str, Any]
    trees: dict[str, Tree] = field(default_factory=dict)
    mappings: list[cuda_ipc.Mapping] = field(default_factory=list)

    def close(self) -> None:
        self.trees.clear()
        for mapping in self.mappings:
            mapping.close()
        self.mappings.clear()


class Channel:
    """One end of a connected stream socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._poll = select.poll()  # not `select`, which knows no descriptor above 1023
        self._poll.register(sock, select.POLLIN)
        self._shipped: list[torch.Tensor] = []

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def send(
        self, body: dict[str, Any], trees: dict[str, Tree] | None = None, *, ipc: bool = False
    ) -> None:
        """Send `body` and `trees`. With `ipc`, large CUDA tensors are shared, not copied; the
        sender must then keep them alive and unchanged until the peer has answered.

        Raises `CannotTravel` for a tree that cannot, `ChannelClosed` for a lost peer.
        """
        tensors: list[torch.Tensor] = []
        encoded = {name: _encode(tree, tensors) for name, tree in (trees or {}).items()}
        specs: list[dict[str, Any]] = []
        payloads: list[memoryview] = []
        # A copy of what is not contiguous must live until the peer has answered.
        self._shipped = [_written_out(tensor) for tensor in tensors]
        for tensor in self._shipped:
            spec, payload = _specify(tensor, ipc=ipc)
            specs.append(spec)
            if payload is not None:
                payloads.append(_bytes_of(payload))
        header = json.dumps({"body": body, "trees": encoded, "tensors": specs}).encode()
        try:
            self._socket.sendall(_LENGTH.pack(len(header)) + header)
            for content in payloads:
                self._socket.sendall(content)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosed("the other side is gone") from error

    def receive(self, *, deadline: float | None = None, max_tensor_bytes: int = 1 << 20) -> Message:
        """The next message. `deadline` is a `time.monotonic()` value; None waits for ever.

        Raises `ChannelTimeout`, `ChannelClosed` or `ChannelError`.
        """
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size, deadline))
        self._shipped.clear()  # the peer has done with what was shared before
        if length > MAX_JSON_BYTES:
            raise ChannelError(f"a message of {length} bytes of JSON is over {MAX_JSON_BYTES}")
        try:
            header = json.loads(self._read(length, deadline).decode())
            body, encoded, specs = header["body"], header["trees"], header["tensors"]
            layouts = [_layout(spec) for spec in specs]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ChannelError(f"not a message: {error!r}") from error
        total = sum(nbytes for _, _, nbytes in layouts)
        if not isinstance(body, dict) or not isinstance(encoded, dict):
            raise ChannelError("not a message: body and trees must be objects")
        if total > max_tensor_bytes:
            raise ChannelError(f"{total} bytes of tensors are over the {max_tensor_bytes} allowed")
        mappings: list[cuda_ipc.Mapping] = []
        tensors = [
            self._tensor(spec, layout, deadline, mappings)
            for spec, layout in zip(specs, layouts, strict=True)
        ]
        trees = {str(name): _decode(tree, tensors) for name, tree in encoded.items()}
        return Message(body=body, trees=trees, mappings=mappings)

    def readable(self, seconds: float) -> bool:
        """Whether there is something to read, or an end, within `seconds`."""
        return bool(self._poll.poll(1e3 * seconds))

    def _tensor(
        self,
        spec: dict[str, Any],
        layout: tuple[torch.dtype, tuple[int, ...], int],
        deadline: float | None,
        mappings: list[cuda_ipc.Mapping],
    ) -> torch.Tensor:
        dtype, shape, nbytes = layout
        if "ipc" in spec:
            try:
                mapping = cuda_ipc.open_handle(spec["ipc"], nbytes)
            except (ValueError, KeyError, TypeError, OSError, RuntimeError) as error:
                raise ChannelError(f"a shared tensor cannot be mapped: {error}") from error
            mappings.append(mapping)
            return mapping.tensor(dtype, shape)
        flat = torch.empty(nbytes, dtype=torch.uint8)
        if nbytes:
            self._read_into(_bytes_of(flat), deadline)
        tensor = flat.view(dtype).view(shape) if nbytes else torch.empty(shape, dtype=dtype)
        return tensor.to(spec["device"]) if spec.get("device") != "cpu" else tensor

    def _read(self, count: int, deadline: float | None) -> bytes:
        buffer = bytearray(count)
        self._read_into(memoryview(buffer), deadline)
        return bytes(buffer)

    def _read_into(self, view: memoryview, deadline: float | None) -> None:
        done = 0
        while done < len(view):
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0 or not self._poll.poll(1e3 * left):
                    raise ChannelTimeout("no answer by the deadline")
            try:
                count = self._socket.recv_into(view[done:])
            except ConnectionResetError as error:
                raise ChannelClosed("the other side is gone") from error
            if count == 0:
                raise ChannelClosed("the other side is gone")
            done += count


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


def _written_out(tensor: torch.Tensor) -> torch.Tensor:
    """Contiguous, with its values in memory: a conjugate is a mark on those of another tensor.

    Through `torch.Tensor` unbound: a subclass or an instance attribute must not change what is
    shipped.
    """
    plain = torch.Tensor.resolve_neg(torch.Tensor.resolve_conj(torch.Tensor.detach(tensor)))
    return torch.Tensor.contiguous(plain)


def _specify(tensor: torch.Tensor, *, ipc: bool) -> tuple[dict[str, Any], torch.Tensor | None]:
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


def _layout(spec: dict[str, Any]) -> tuple[torch.dtype, tuple[int, ...], int]:
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


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    """Those of a contiguous tensor of the CPU. A single value is that, whatever its strides."""
    flat = torch.as_strided(tensor, (tensor.numel(),), (1,))
    array: Any = flat.view(torch.uint8).numpy()
    return memoryview(array)


def _encode(tree: Tree, tensors: list[torch.Tensor]) -> Any:
    """A tree as JSON. Containers are told apart by their one key."""
    if isinstance(tree, torch.Tensor):
        if tree.layout is not torch.strided or tree.dtype not in _NAMES:
            raise CannotTravel(f"a {tree.layout} tensor of {tree.dtype} cannot be compared")
        tensors.append(tree)
        return {"tensor": len(tensors) - 1}
    if isinstance(tree, tuple | list):
        kind = "tuple" if isinstance(tree, tuple) else "list"
        return {kind: [_encode(item, tensors) for item in tree]}
    if isinstance(tree, dict):
        return {"dict": [[str(k), _encode(v, tensors)] for k, v in tree.items()]}
    if tree is None or isinstance(tree, bool | int):
        return {"value": tree}
    if isinstance(tree, float):
        return {"float": repr(tree)}
    raise CannotTravel(
        f"a {type(tree).__name__} cannot be compared; tensors and numbers can, in tuples, "
        "lists and dicts too"
    )


def _decode(node: Any, tensors: list[torch.Tensor], depth: int = 0) -> Tree:
    if not isinstance(node, dict) or len(node) != 1 or depth > 50:
        raise ChannelError("not a tree")
    ((kind, content),) = node.items()
    try:
        if kind == "tensor" and isinstance(content, int) and 0 <= content < len(tensors):
            return tensors[content]
        if kind in ("tuple", "list"):
            items = [_decode(item, tensors, depth + 1) for item in content]
            return tuple(items) if kind == "tuple" else items
        if kind == "dict":
            return {str(key): _decode(value, tensors, depth + 1) for key, value in content}
        if kind == "value" and (content is None or isinstance(content, bool | int)):
            return content
        if kind == "float":
            return float(content)
    except (TypeError, ValueError, OverflowError) as error:
        raise ChannelError(f"not a tree: {error}") from error
    raise ChannelError(f"not a tree: {kind!r}")
