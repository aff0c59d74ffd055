"""Does what a solution returned equal what the reference returns? One `Check` per leaf.

Structure first, then layout, shape, dtype and device, then values: their verdict is
`torch.testing.assert_close`, chunk by chunk. Beside it the error model: float32 whose error is
far above eager PyTorch's was computed in less (docs/error_model.md: figures and derivations).

Covers: tensors on any device, integers and booleans exactly, complex numbers as pairs of real
ones, NaN and infinities by position. Does not cover: strides (a view equals its copy),
aliasing, and inputs on which the reference is not finite or rounding noise: leave those out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from harness.judge.checking import elements, hints
from harness.judge.checking.error_model import Leaf, Tolerance, errors, holds, scale_of
from harness.records import Check
from harness.shared.trees import dense

Tree: TypeAlias = (
    "torch.Tensor | tuple[Tree, ...] | list[Tree] | dict[Any, Tree] | bool | int | float | None"
)
Limits: TypeAlias = "Mapping[torch.dtype, float] | float | None"


TOLERANCES: dict[torch.dtype, Tolerance] = {
    torch.float64: Tolerance(rtol=1e-9, atol_scale=1e-9),
    torch.float32: Tolerance(rtol=1e-4, atol_scale=1e-3),
    torch.float16: Tolerance(rtol=1e-2, atol_scale=1e-2),
    torch.bfloat16: Tolerance(rtol=5e-2, atol_scale=5e-2),
}
#: Largest credible `error_ratio` of honest code. float64 has none: there is no better oracle,
#: and its rtol lies below float32's epsilon anyway.
ERROR_RATIO_LIMIT: dict[torch.dtype, float] = {
    torch.float32: 48.0,
    torch.float16: 16.0,
    torch.bfloat16: 11.0,
}


@dataclass(frozen=True, kw_only=True)
class _Rules:
    tolerances: Mapping[torch.dtype, Tolerance]
    limits: Limits
    chunk_elements: int

    def tolerance(self, dtype: torch.dtype, path: str) -> Tolerance:
        if not dtype.is_floating_point:
            return Tolerance(rtol=0.0, atol_scale=0.0)
        if dtype not in self.tolerances:
            known = ", ".join(str(d) for d in self.tolerances)
            raise ValueError(f"{path}: no tolerance for {dtype}; there is one for {known}")
        return self.tolerances[dtype]

    def limit(self, dtype: torch.dtype) -> float | None:
        return self.limits.get(dtype) if isinstance(self.limits, Mapping) else self.limits


@torch.no_grad()
def compare(
    actual: Tree,
    expected: Tree,
    *,
    root: str,
    tolerances: Mapping[torch.dtype, Tolerance] = TOLERANCES,
    oracle: Tree = None,
    error_ratio_limit: Limits = ERROR_RATIO_LIMIT,
    chunk_elements: int = 1 << 24,
) -> list[Check]:
    """One `Check` per leaf of `expected`, named from `root` down (`output[1]`).

    `expected` is the reference's result at the declared dtype; `oracle` the same tree in
    float64, or None, as a whole or for a leaf: then no error ratio. `error_ratio_limit` is one
    number, one per dtype, or None for no limit. Temporaries: about six chunks of
    `chunk_elements` float32 numbers. Nothing given is written to.

    Raises `ValueError` where `expected` cannot be judged: a sparse, nested or quantized
    tensor, a dtype without a tolerance, an object that is neither tensor nor number.
    """
    rules = _Rules(tolerances=tolerances, limits=error_ratio_limit, chunk_elements=chunk_elements)
    return list(_walk(actual, expected, oracle, root, rules))


@torch.no_grad()
def noise(
    expected: Tree,
    oracle: Tree,
    *,
    tolerances: Mapping[torch.dtype, Tolerance] = TOLERANCES,
    chunk_elements: int = 1 << 24,
) -> float:
    """How much of what eager returns is rounding noise, over all leaves; fit inputs: below 1.

    Above 1, eager errs by more than atol may grow to, and honest code may fail: leave such a
    variation out. Takes what `compare` takes, and one pass.
    """
    rules = _Rules(tolerances=tolerances, limits=None, chunk_elements=chunk_elements)
    worst = 0.0
    if oracle is None:
        return worst
    for leaf_expected, leaf_oracle in zip(_leaves(expected), _leaves(oracle), strict=True):
        if isinstance(leaf_expected, torch.Tensor) and leaf_expected.numel():
            scale = scale_of(_leaf(leaf_expected, leaf_expected, leaf_oracle, "reference", rules))
            worst = max(worst, scale.noise)
    return worst


def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, (tuple, list, dict)):
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from _leaves(part)
    else:
        yield tree


def _walk(actual: Any, expected: Any, oracle: Any, path: str, rules: _Rules) -> Iterator[Check]:
    """The checks of the tree under `path`; a structural mismatch ends its branch."""
    problem = hints.of_structure(actual, expected, path)
    if problem is not None:
        yield Check(path=path, problem=f"{path}: {problem}")
    elif isinstance(expected, (tuple, list, dict)):
        for key in expected if isinstance(expected, dict) else range(len(expected)):
            part = None if oracle is None else oracle[key]
            yield from _walk(actual[key], expected[key], part, f"{path}[{key!r}]", rules)
    elif isinstance(expected, torch.Tensor):
        yield _check_tensor(actual, expected, oracle, path, rules)
    else:
        yield _check_number(actual, expected, path, rules)


def _check_number(actual: Any, expected: Any, path: str, rules: _Rules) -> Check:
    """None, bool and int exactly; a Python float as a float32 tensor of one element."""
    rtol = atol = 0.0
    if isinstance(expected, float):
        tolerance = rules.tolerance(torch.float32, path)
        rtol = tolerance.rtol
        atol = tolerance.atol_scale * abs(expected) if math.isfinite(expected) else 0.0
    if holds(actual, expected, rtol, atol):
        return Check(path=path)
    return Check(path=path, problem=f"{path}: {actual!r}, but the reference gives {expected!r}")


def _leaf(
    actual: torch.Tensor, expected: torch.Tensor, oracle: Any, path: str, rules: _Rules
) -> Leaf:
    """Complex as real; no oracle where it says nothing: exact dtypes."""
    dtype = _real_dtype(expected)
    if not dtype.is_floating_point:
        oracle = None
    assert oracle is None or oracle.shape == expected.shape, f"{path}: oracle of another shape"
    return Leaf(
        path=path,
        actual=elements.real(actual),
        expected=elements.real(expected),
        oracle=None if oracle is None else elements.real(oracle),
        tolerance=rules.tolerance(dtype, path),
        chunk_elements=rules.chunk_elements,
    )


def _real_dtype(tensor: torch.Tensor) -> torch.dtype:
    return tensor.dtype.to_real() if tensor.is_complex() else tensor.dtype


def _check_tensor(
    actual: torch.Tensor, expected: torch.Tensor, oracle: Any, path: str, rules: _Rules
) -> Check:
    if not dense(expected):
        raise ValueError(f"{path}: the reference gives a tensor that is not dense")
    tolerance = rules.tolerance(_real_dtype(expected), path)
    problem = hints.of_attributes(actual, expected, tolerance.rtol, tolerance.atol_scale)
    if problem is not None:
        return Check(path=path, problem=f"{path}: {problem}")
    if expected.numel() == 0:
        return Check(path=path)
    leaf = _leaf(actual, expected, oracle, path, rules)
    return _check_values(leaf, rules.limit(leaf.expected.dtype))


def _check_values(leaf: Leaf, limit: float | None) -> Check:
    scale = scale_of(leaf)
    rtol = leaf.tolerance.rtol
    close, max_abs, max_rel, error = errors(leaf, scale)
    ratio = problem = None
    if leaf.oracle is not None and scale.oracle_rms > 0:
        ratio = error / max(scale.eager_error, scale.floor)
    if not close:
        chunks = leaf.chunks(leaf.actual, leaf.expected)
        problem = hints.of_values(leaf.actual, leaf.expected, chunks, rtol, scale.atol)
        if scale.noise > 1:
            problem += f"; unfit inputs? eager itself is off by up to {scale.excess:.3g}"
    elif ratio is not None and limit is not None and ratio > limit:
        relative = error / scale.oracle_rms
        problem = hints.of_precision(leaf.actual, leaf.expected, ratio, limit, relative)
    return Check(
        path=leaf.path,
        max_abs_error=max_abs,
        max_rel_error=max_rel if leaf.expected.is_floating_point() else None,
        error_ratio=ratio,
        problem=None if problem is None else f"{leaf.path}: {problem}",
    )
