"""The wire between judge and worker: JSON and raw tensor bytes, never pickle.

A message is one JSON object (length first) followed by the raw bytes of its tensors in order.
How trees of tensors become that is in encoding.py. Large CUDA tensors travel as IPC handles instead
of bytes, where the sender asks for it.

Everything read is bounded: by a deadline, by the size of the JSON, and by a cap on tensor
bytes that the reader sets. Nothing read is ever executed. The reader checks shapes, dtypes
and sizes itself; what does not add up is a `ChannelError`.

Not covered: a sender that goes on writing into memory which it has shared by IPC.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any

import torch

from harness.shared import cuda_ipc, encoding
from harness.shared.encoding import Tree

MAX_JSON_BYTES = 8 << 20  # which Python may take 40 times as much memory to hold
_LENGTH = struct.Struct("<Q")


class ChannelError(Exception):
    """The peer sent something that is not a message."""


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
        encoded = {name: encoding.encode(tree, tensors) for name, tree in (trees or {}).items()}
        specs: list[dict[str, Any]] = []
        payloads: list[memoryview] = []
        # A copy of what is not contiguous must live until the peer has answered.
        self._shipped = [encoding.written_out(tensor) for tensor in tensors]
        for tensor in self._shipped:
            spec, payload = encoding.specify(tensor, ipc=ipc)
            specs.append(spec)
            if payload is not None:
                payloads.append(encoding.raw_bytes(payload))
        header = json.dumps({"body": body, "trees": encoded, "tensors": specs}).encode()
        try:
            self._socket.sendall(_LENGTH.pack(len(header)) + header)
            for content in payloads:
                self._socket.sendall(content)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosed("the other side is gone") from error

    def receive(
        self,
        *,
        deadline: float | None = None,
        max_tensor_bytes: int = 1 << 20,
        shared: bool = False,
    ) -> Message:
        """The next message. `deadline` is a `time.monotonic()` value; None waits for ever.
        `shared`: tensors may be memory of the sender's, which it can still write to.

        Raises `ChannelTimeout`, `ChannelClosed` or `ChannelError`.
        """
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size, deadline))
        self._shipped.clear()  # the peer has done with what was shared before
        if length > MAX_JSON_BYTES:
            raise ChannelError(f"a message of {length} bytes of JSON is over {MAX_JSON_BYTES}")
        try:
            header = json.loads(self._read(length, deadline).decode())
            body, encoded, specs = header["body"], header["trees"], header["tensors"]
            layouts = [encoding.layout_of(spec) for spec in specs]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ChannelError(f"not a message: {error!r}") from error
        if any("ipc" in spec for spec in specs) and not shared:
            raise ChannelError("a tensor is shared memory, and its bytes were asked for")
        total = sum(nbytes for _, _, nbytes in layouts)
        if not isinstance(body, dict) or not isinstance(encoded, dict):
            raise ChannelError("not a message: body and trees must be objects")
        if total > max_tensor_bytes:
            raise ChannelError(f"{total} bytes of tensors are over the {max_tensor_bytes} allowed")
        message = Message(body=body)
        with contextlib.ExitStack() as undo:  # what is mapped by then, if the rest cannot be read
            undo.callback(message.close)
            tensors = [
                self._tensor(spec, layout, deadline, message.mappings)
                for spec, layout in zip(specs, layouts, strict=True)
            ]
            for name, tree in encoded.items():
                message.trees[str(name)] = _decoded(tree, tensors)
            undo.pop_all()
        return message

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
            self._read_into(encoding.raw_bytes(flat), deadline)
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


def _decoded(tree: Any, tensors: list[torch.Tensor]) -> Tree:
    try:
        return encoding.decode(tree, tensors)
    except (ValueError, TypeError, OverflowError) as error:
        raise ChannelError(f"not a tree: {error}") from error
