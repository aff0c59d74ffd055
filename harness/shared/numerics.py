"""Numerical switches of torch, alike for both sides and the judge.

Whatever this torch's defaults are, or those of the program that the judge runs in. cuDNN's
convolutions take TF32 unless told otherwise: a judge that left that on would call its rounding, a
thousand times float32's, the reference's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch


@dataclass(frozen=True, kw_only=True)
class _Switch:
    get: Callable[[], Any]
    put: Callable[[Any], None]
    value: Any

    @classmethod
    def of(cls, holder: Any, name: str, value: Any) -> _Switch:
        """An attribute."""
        get, put = partial(getattr, holder, name), partial(setattr, holder, name)
        return cls(get=get, put=put, value=value)


def set_numerics(*, allow_tf32: bool) -> None:
    """Products and convolutions of float32 as exact as it, unless `allow_tf32`; sums of half
    precision in float32; no choice of algorithms by trying them; float32 where a file names no
    dtype."""
    for switch in _switches(allow_tf32):
        switch.put(switch.value)


@contextmanager
def numerics(*, allow_tf32: bool) -> Iterator[None]:
    """The same within, without autocast, and on the CPU where a file names no device; then
    everything as it was, for this process may be somebody's own."""
    before = []
    for switch in _switches(allow_tf32):
        with suppress(RuntimeError):  # an older one, which newer ones contradict: these tell
            before.append((switch.put, switch.get()))
    set_numerics(allow_tf32=allow_tf32)
    try:
        with ExitStack() as stack:
            for kind in ("cpu", "cuda"):
                stack.enter_context(torch.autocast(kind, enabled=False))
            if torch.get_default_device().type != "cpu":
                stack.enter_context(torch.device("cpu"))
            yield
    finally:
        for put, value in before:
            put(value)


def _switches(allow_tf32: bool) -> list[_Switch]:
    """The older before the newer, which may speak of the same, and then stand."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    mkldnn: Any = torch.backends.mkldnn
    switches = [
        _Switch.of(matmul, "allow_tf32", allow_tf32),  # before what says it finer
        _Switch(
            get=torch.get_float32_matmul_precision,
            put=torch.set_float32_matmul_precision,
            value="high" if allow_tf32 else "highest",
        ),
        _Switch.of(cudnn, "allow_tf32", allow_tf32),
        _Switch.of(matmul, "allow_fp16_reduced_precision_reduction", False),
        _Switch.of(matmul, "allow_bf16_reduced_precision_reduction", False),
        _Switch.of(cudnn, "benchmark", False),
        _Switch(get=torch.get_default_dtype, put=torch.set_default_dtype, value=torch.float32),
    ]
    if hasattr(cudnn, "conv"):  # torch 2.9
        exact = "tf32" if allow_tf32 else "ieee"
        newer = (torch.backends, matmul, cudnn.conv, cudnn.rnn, mkldnn.matmul)
        switches += [_Switch.of(holder, "fp32_precision", exact) for holder in newer]
    return switches
