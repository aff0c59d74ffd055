"""Solution text -> ModelNew with the reference's weights."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import torch

from harness.worker.faults import ContractFault

MODULE_NAME = "solution_under_test"


def import_solution(source: str, folder: Path, file_name: str) -> Any:
    """Execute the solution as a module of its own file (triton reads its source from there).

    Returns its ModelNew. Raises `ContractFault` where there is none; what the file raises
    itself passes through.
    """
    path = folder / file_name
    path.write_text(source, encoding="utf-8")
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


def adopt_state(model: torch.nn.Module, reference: torch.nn.Module) -> dict[str, str]:
    """Copy the reference's parameters and buffers into `model`.

    By name where names and shapes agree; otherwise in order, where the shapes do: then the
    model's name of each parameter -> the reference's is returned. Buffers that only the
    solution has are its own business; parameters are not.
    Raises `ContractFault` that lists both sides where neither way fits.
    """
    with torch.no_grad():
        theirs = dict(reference.named_parameters()) | dict(reference.named_buffers())
        own = dict(model.named_parameters()) | dict(model.named_buffers())
        extra = set(dict(model.named_parameters())) - set(theirs)
        if not extra and all(n in own and own[n].shape == t.shape for n, t in theirs.items()):
            for name, tensor in theirs.items():
                own[name].copy_(tensor)
            return {}
        if list(reference.named_buffers()):
            _adopt_in_order(model, reference, "buffers")
        return _adopt_in_order(model, reference, "parameters")


def _adopt_in_order(
    model: torch.nn.Module, reference: torch.nn.Module, kind: str
) -> dict[str, str]:
    theirs = list(getattr(reference, f"named_{kind}")())
    own = list(getattr(model, f"named_{kind}")())
    if [t.shape for _, t in theirs] != [t.shape for _, t in own]:
        raise ContractFault(
            f"the {kind} differ, by name and in order: the reference has {_list(theirs)}, "
            f"ModelNew has {_list(own)}"
        )
    for (_, mine), (_, tensor) in zip(own, theirs, strict=True):
        mine.copy_(tensor)
    return {mine: name for (mine, _), (name, _) in zip(own, theirs, strict=True)}


def _list(named: list[tuple[str, torch.Tensor]]) -> str:
    return "[" + ", ".join(f"{name} {tuple(t.shape)}" for name, t in named) + "]"
