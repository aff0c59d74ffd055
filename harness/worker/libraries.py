"""Built libraries: opened from the build cache; the native functions that calls of them enter."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import types
from pathlib import Path
from typing import Any

import torch

MARKER = "built.json"  # in the folder of a library: what it is


def operators() -> set[str]:
    """The operators that there are, as `library::name.overload`."""
    return set(torch._C._dispatch_get_all_op_names())


def calls_of(names: set[str]) -> types.SimpleNamespace:
    """The native functions that calls of `torch.ops.library.name` enter, each by its own name."""
    found: dict[str, Any] = {}
    for operator in names:
        library, name = operator.split("::", 1)
        name, _, overload = name.partition(".")
        packet = getattr(getattr(torch.ops, library), name)
        found[f"{library}::{name}"] = packet._op
        found[operator + "."] = getattr(packet, overload or "default")._op
    return types.SimpleNamespace(**found)


def open_library(folder: Path) -> Any:
    """The built module, or None for a plain library, which registers itself."""
    marker = json.loads((folder / MARKER).read_text())
    path = folder / marker["library"]
    if marker["kind"] == "library":
        torch.ops.load_library(str(path))
        return None
    name = path.stem
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, str(path), loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
