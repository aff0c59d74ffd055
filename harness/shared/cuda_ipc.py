"""CUDA memory shared between processes by handle, through the driver API.

A handle is 64 bytes plus an offset and a size, so it travels as JSON; torch's own sharing
goes through pickle and a reference-count file that the peer names. The driver is asked for
the true extent of a mapped allocation before a tensor is laid over it.

Source: CUDA driver API, "Memory Management", cuIpcGetMemHandle and cuIpcOpenMemHandle.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import torch

HANDLE_BYTES = 64
_LAZY_ENABLE_PEER_ACCESS = 1


class _Handle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * HANDLE_BYTES)]


@functools.cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _call(name: str, *arguments: Any) -> None:
    """Call a driver function; raises `RuntimeError` with its name and code if it fails."""
    code = getattr(_driver(), name)(*arguments)
    if code != 0:
        raise RuntimeError(f"{name} failed with CUDA error {code}")


def _extent(pointer: int) -> tuple[int, int]:
    """Base address and bytes of the allocation that `pointer` lies in."""
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    _call(
        "cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(pointer)
    )
    return base.value, size.value


def export(tensor: torch.Tensor) -> dict[str, Any]:
    """The handle of a contiguous CUDA tensor, as JSON. Raises `RuntimeError` where the memory
    cannot be shared (expandable segments, managed memory)."""
    base, _ = _extent(tensor.data_ptr())
    handle = _Handle()
    _call("cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(base))
    return {"handle": bytes(handle).hex(), "offset": tensor.data_ptr() - base}


class Mapping:
    """A peer's allocation mapped here, until `close`."""

    def __init__(self, handle: _Handle, offset: int, nbytes: int) -> None:
        pointer = ctypes.c_uint64()
        _call(
            "cuIpcOpenMemHandle_v2",
            ctypes.byref(pointer),
            handle,
            ctypes.c_uint(_LAZY_ENABLE_PEER_ACCESS),
        )
        self._base = pointer.value
        self._nbytes = nbytes
        start, size = _extent(self._base)
        if offset < 0 or self._base + offset + nbytes > start + size:
            self.close()
            raise ValueError("the shared range lies outside of its allocation")
        self._pointer = self._base + offset

    def tensor(self, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
        """A tensor over the mapped bytes; it must not outlive `close`."""
        interface = {
            "shape": (self._nbytes,),
            "typestr": "|u1",
            "data": (self._pointer, False),
            "version": 3,
        }
        view = type("_View", (), {"__cuda_array_interface__": interface})()
        return torch.as_tensor(view, device="cuda").view(dtype).view(shape)

    def close(self) -> None:
        torch.cuda.synchronize()
        _call("cuIpcCloseMemHandle", ctypes.c_uint64(self._base))


def open_handle(spec: dict[str, Any], nbytes: int) -> Mapping:
    """Map `nbytes` of a peer's allocation.

    Raises `ValueError` or `KeyError` for a malformed spec, `RuntimeError` where the driver
    refuses it.
    """
    torch.cuda.init()
    torch.cuda.current_stream()
    raw = bytes.fromhex(spec["handle"])
    if len(raw) != HANDLE_BYTES:
        raise ValueError("a handle has 64 bytes")
    handle = _Handle()
    ctypes.memmove(ctypes.byref(handle), raw, HANDLE_BYTES)
    return Mapping(handle, int(spec["offset"]), nbytes)
