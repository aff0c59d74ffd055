"""Solution text -> ModelNew with the reference's weights."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from harness.shared.trees import dense, once
from harness.worker.faults import ContractFault

MODULE_NAME = "solution_under_test"


def fix_devices() -> None:
    """Let the driver read which devices it may show. It does so once in a process, so whatever a
    solution then makes of CUDA_VISIBLE_DEVICES, another card does no work for it. No context is
    made: the device is not touched before builds are done."""
    if os.environ.get("CUDA_VISIBLE_DEVICES"):
        with contextlib.suppress(OSError):  # no driver: what needs one will say so
            ctypes.CDLL("libcuda.so.1").cuInit(0)


def import_solution(source: str, folder: Path, file_name: str) -> Any:
    """Execute the solution as a module of its own file (triton reads its source from there).

    Returns its ModelNew. Raises `ContractFault` where there is none; what the file raises
    itself passes through.
    """
    path = folder / file_name
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(MODULE_NAME, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE_NAME] = module
    spec.loader.exec_module(module)
    model = getattr(module, "ModelNew", None)
    if not callable(model):
        raise ContractFault(f"{file_name} defines no class ModelNew")
    return model


def adopt_state(
    model: torch.nn.Module, reference: torch.nn.Module, constants: Sequence[str] = ()
) -> tuple[dict[str, str], str]:
    """Copy the reference's parameters and buffers into `model`.

    Returns what the model calls each of them that is dense, and a note on how they were matched,
    or "". By name where name and shape agree, the rest in order, where the shapes do. Buffers that
    only the solution has are its own business; parameters are not. It may do without `constants`,
    buffers of the reference that never change.
    Raises `ContractFault` that lists both sides where neither way fits.
    """
    parameters, notes = _match(
        dict(reference.named_parameters()), dict(model.named_parameters()), "parameters"
    )
    buffers, more = _match(
        dict(reference.named_buffers()), dict(model.named_buffers()), "buffers", constants
    )
    names = parameters | buffers
    theirs = dict(reference.named_parameters()) | dict(reference.named_buffers())
    own = dict(model.named_parameters()) | dict(model.named_buffers())
    with torch.no_grad():
        for name, mine in names.items():
            _write(own[mine], theirs[name])
    names = {name: mine for name, mine in names.items() if dense(theirs[name])}
    return names, "; ".join(notes + more)


def _write(own: torch.Tensor, theirs: torch.Tensor) -> None:
    """Copy `theirs` into `own`, which may be expanded like it, or dense where `theirs` is not."""
    if not dense(own):
        own.copy_(theirs)
        return
    values = theirs if dense(theirs) else theirs.to_dense()
    if once(own).shape == once(values).shape:
        own, values = once(own), once(values)
    own.copy_(values)


def _match(
    theirs: dict[str, torch.Tensor],
    own: dict[str, torch.Tensor],
    kind: str,
    constants: Sequence[str] = (),
) -> tuple[dict[str, str], list[str]]:
    """The reference's name -> the model's, and a note where names differ. Raises `ContractFault`.

    A buffer that only counts (an integer without dimensions) may be missing, and `constants` may
    where they have no counterpart.
    """
    names = {n: n for n, t in theirs.items() if n in own and own[n].shape == t.shape}
    rest = {n: t for n, t in theirs.items() if n not in names}
    spare = {n: t for n, t in own.items() if n not in names.values()}
    if kind == "buffers":
        rest = {n: t for n, t in rest.items() if t.ndim or t.is_floating_point()}
        shapes = [t.shape for t in rest.values()]
        spare = {n: t for n, t in spare.items() if t.shape in shapes}
        if len(spare) < len(rest):
            rest = {n: t for n, t in rest.items() if n not in constants}
            spare = {n: t for n, t in spare.items() if t.shape in [r.shape for r in rest.values()]}
    if [t.shape for t in rest.values()] != [t.shape for t in spare.values()]:
        raise ContractFault(
            f"the {kind} differ, by name and in order: the reference has {_list(theirs)}, "
            f"ModelNew has {_list(own)}"
        )
    names |= dict(zip(rest, spare, strict=True))
    note = f"{kind} were taken over in order: the names differ ({', '.join(rest)})"
    return names, [note] if rest else []


def _list(named: dict[str, torch.Tensor]) -> str:
    return "[" + ", ".join(f"{name} {tuple(t.shape)}" for name, t in named.items()) + "]"
