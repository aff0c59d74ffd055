"""How much memory a reference takes, worked out on tensors without data: no device is needed.

Counted is what the allocator would hold: inputs, weights, outputs, gradients, what autograd keeps
and temporaries, of one call with its backward. Not counted: workspaces inside of an operation.
Attention counts as its plain formula, which holds the scores.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import weakref
from pathlib import Path
from typing import Any

import torch

import harness
from harness import files
from harness.shared.dispatch import DispatchMode
from harness.shared.problem import FULL, Draw, Instance
from harness.shared.trees import walk_tensors

META = torch.device("meta")


def peak_bytes(*, source: str, path: str, size: str, dtype: torch.dtype) -> int | None:
    """Peak bytes of drawing inputs, a call and its backward at a size. None where the reference
    cannot run without data, as where it branches on values, or not at all.
    """
    with _Allocations() as counter:
        try:
            instance = Instance(source=source, path=path, size=size, dtype=dtype, device=META)
            model = instance.model(0)
            inputs = instance.inputs(Draw(seed=0))
            leaves = list(instance.leaves(inputs).values())
            for leaf in leaves:
                leaf.requires_grad_()
            output = model(*inputs)
            leaves += [p for p in model.parameters() if p.requires_grad]
            outputs = [t for _, t in walk_tensors(output, "") if t.requires_grad]
            if outputs and leaves:
                grads = [torch.empty_like(t) for t in outputs]
                torch.autograd.grad(outputs, leaves, grads, allow_unused=True)
        except Exception:  # noqa: BLE001 - whatever a file cannot do without data
            return None
    peak: int = counter.peak
    return peak


def kept_largest_size(folder: Path, source: str, path: str, **asked: Any) -> str:
    """`largest_size`, whose answer is kept in `folder`: on tensors without data most operations
    of torch import Dynamo and SymPy first, which takes seconds."""
    facts = json.dumps([source, asked, torch.__version__, harness.__version__], sort_keys=True)
    file = folder / hashlib.sha256(facts.encode()).hexdigest()[:32]
    with contextlib.suppress(OSError, ValueError):
        if (known := file.read_text()) in asked["sizes"]:
            return known
    size = largest_size(source, path, **asked)
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        files.replace(file, size.encode())
    return size


def largest_size(
    source: str, path: str, *, sizes: tuple[str, ...], dtype: str, limit_bytes: float
) -> str:
    """Of `sizes`, the one that takes the most memory up to `limit_bytes`; the smallest, if none
    fits. `full` where its memory cannot be told."""
    if len(sizes) == 1:
        return sizes[0]  # deep models take seconds without data, too
    peaks = {
        size: peak_bytes(source=source, path=path, size=size, dtype=getattr(torch, dtype))
        for size in sizes
    }
    if peaks.get(FULL) is None:
        return FULL
    known = {size: peak for size, peak in peaks.items() if peak is not None}
    fitting = [size for size in known if known[size] <= limit_bytes]
    return max(fitting, key=known.__getitem__) if fitting else min(known, key=known.__getitem__)


class _Allocations(DispatchMode):
    """Bytes of the storages that operations have made and nobody has let go yet."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.held: int = 0
        self.peak: int = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        for _, tensor in walk_tensors(out, ""):
            self._hold(tensor.untyped_storage())
        return out

    def _hold(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._known:
            return
        self._known.add(key)
        self.held += size
        self.peak = max(self.peak, self.held)
        weakref.finalize(storage, self._release, key, size)

    def _release(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.held -= size
