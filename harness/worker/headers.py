"""Lean headers: what kernel sources use of torch's, put ahead of torch's own when one is built.

`harness/include` holds the umbrella headers and stand-ins for three that nearly everything
includes and no kernel needs. Operators and factories stay torch's own code: the header of each
operator that a source's text names is included, instead of one with all of them.

Covers: tensors, operators, `torch::` factories and dtypes, dispatch macros, accessors, guards,
pybind11. Not: `torch::nn`, `torch::autograd`, and whatever else `building` falls back for.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

INCLUDE = Path(__file__).resolve().parent.parent / "include"
_OPERATORS = "harness_operators.h"  # included by our ATen/ATen.h
_TORCH = Path(torch.__file__).parent / "include"

#: Headers of torch's that the umbrella brings in where the text has such a word: each is heavy.
_FURTHER = {
    r"\bTORCH_LIBRARY": "torch/library.h",
    r"\bindexing\b|\.index(_put_)?\s*\(": "ATen/TensorIndexing.h",
    r"\b(cat|concat)\s*\(": "ATen/core/IListRef.h",
}


@functools.cache
def digest() -> str:
    """Of all that makes a lean build what it is, for the key of the build cache."""
    files = [*sorted(INCLUDE.rglob("*.h")), Path(__file__)]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def lean_call(call: dict[str, Any], texts: Iterable[str], folder: Path) -> dict[str, Any]:
    """A build call with the lean headers ahead of all others.

    `texts` are the sources. `folder` is the build's own; what the sources name is written there.
    """
    (folder / _OPERATORS).write_text(_named(texts))
    paths = [str(INCLUDE), str(folder), *(call.get("extra_include_paths") or [])]
    return call | {"extra_include_paths": paths}


def _named(texts: Iterable[str]) -> str:
    """Includes of the header of every operator that has the name of a word of `texts`."""
    text = "\n".join(texts)
    words = set(re.findall(r"[A-Za-z_]\w*", text))
    known = [f"ATen/ops/{word}.h" for word in words & _operators()]
    further = [header for word, header in _FURTHER.items() if re.search(word, text)]
    return "".join(f"#include <{header}>\n" for header in [*sorted(further), *sorted(known)])


@functools.cache
def _operators() -> frozenset[str]:
    return frozenset(path.stem for path in (_TORCH / "ATen" / "ops").glob("*.h"))
