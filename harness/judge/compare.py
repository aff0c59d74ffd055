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

from harness.judge import elements, hints
from harness.records import Check
from harness.trees import dense

# `assert_close` asks whether it is given a DTensor, which nothing here is, and for that imports
# torch.distributed.tensor, SymPy included: half a second in torch 2.14. Earlier ones do not ask.
torch.testing._comparison._HAS_DTENSOR = False

Tree: TypeAlias = (
    "torch.Tensor | tuple[Tree, ...] | list[Tree] | dict[Any, Tree] | bool | int | float | None"
)
Limits: TypeAlias = "Mapping[torch.dtype, float] | float | None"


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """What `assert_close` allows: |actual - expected| <= atol + rtol * |expected|, with atol =
    atol_scale * (rms of the leaf's finite non-zero elements), or `atol` where that is more."""

    rtol: float
    atol_scale: float
    atol: float = 0.0


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
# Eager's error counts as no less than FLOOR_EPS * eps * rms(oracle): one rounding costs 0.21 eps
# rms; float32 has partial sums to round as well. A few elements may be exact by luck, so the
# floor grows by SCALAR_GAIN / sqrt(n) where the effective count n = (sum x^2)^2 / sum x^4 is
# under SCALAR_GAIN^2.
FLOOR_EPS: dict[torch.dtype, float] = {torch.float32: 0.5}
NARROW_FLOOR_EPS = 0.25
SCALAR_GAIN = 16.0
# Where eager is off by more than rtol explains (cancellation), honest code is too: atol grows to
# EXCESS_GAIN times that, but not past ATOL_CAP of the magnitude, so that zeros still fail.
EXCESS_GAIN = 4.0
ATOL_CAP = 0.1


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
            scale = _scale(_leaf(leaf_expected, leaf_expected, leaf_oracle, "reference", rules))
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
    if _close(actual, expected, rtol, atol):
        return Check(path=path)
    return Check(path=path, problem=f"{path}: {actual!r}, but the reference gives {expected!r}")


@dataclass(frozen=True, kw_only=True)
class _Leaf:
    """Tensors of one shape, not complex and not empty; `oracle` is float64."""

    path: str
    actual: torch.Tensor
    expected: torch.Tensor
    oracle: torch.Tensor | None
    tolerance: Tolerance
    chunk_elements: int

    def chunks(self, *tensors: torch.Tensor | None) -> Iterator[tuple[int, list[torch.Tensor]]]:
        limit = max(1, self.chunk_elements * 4 // max(4, self.expected.element_size()))
        return elements.chunks([t for t in tensors if t is not None], limit)


def _leaf(
    actual: torch.Tensor, expected: torch.Tensor, oracle: Any, path: str, rules: _Rules
) -> _Leaf:
    """Complex as real; no oracle where it says nothing: exact dtypes."""
    dtype = _real_dtype(expected)
    if not dtype.is_floating_point:
        oracle = None
    assert oracle is None or oracle.shape == expected.shape, f"{path}: oracle of another shape"
    return _Leaf(
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


def _check_values(leaf: _Leaf, limit: float | None) -> Check:
    scale = _scale(leaf)
    rtol = leaf.tolerance.rtol
    close, max_abs, max_rel, error = _errors(leaf, scale)
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


@dataclass(frozen=True, kw_only=True)
class _Scale:
    """What a pass over the reference's result says about a leaf.

    `magnitude` is the rms of the finite non-zero elements: zeros (padding, relu, sparse
    gradients) must not shrink it, and few large elements move it less than they move the
    maximum. It is at most the maximum, so zeros fail for every atol below it. `eager_error` is
    the rms of expected - oracle, `floor` the least that it counts as, and `excess` the largest
    part of one element's error that rtol does not explain.
    """

    magnitude: float
    atol: float
    excess: float = 0.0
    oracle_rms: float = 0.0
    eager_error: float = 0.0
    floor: float = 0.0

    @property
    def noise(self) -> float:
        """The atol that eager's own error asks for, over the most that it may grow to."""
        return EXCESS_GAIN * self.excess / (ATOL_CAP * self.magnitude) if self.magnitude else 0.0


def _scale(leaf: _Leaf) -> _Scale:
    if not leaf.expected.is_floating_point():
        return _Scale(magnitude=0.0, atol=0.0)
    rows = []
    for _, (expected, *oracle) in leaf.chunks(leaf.expected, leaf.oracle):
        finite = elements.finite(expected)
        row = [_square(finite), torch.count_nonzero(finite).double(), _largest(finite)]
        del finite
        row += [m for o in oracle for m in _oracle_moments(expected, o, leaf.tolerance.rtol)]
        rows.append(torch.stack(row))
    square, count, largest, *moments = _reduce(rows, maxima=(2, 6))
    magnitude = min(math.sqrt(square / max(count, 1.0)), largest)  # min: squares may overflow
    info, dtype = torch.finfo(leaf.expected.dtype), leaf.expected.dtype
    # Below the smallest normal number a GPU may flush to zero; float16's are kept.
    step = info.tiny * (info.eps if dtype is torch.float16 else 1.0)
    atol = max(leaf.tolerance.atol_scale * magnitude, leaf.tolerance.atol, step)
    if not moments:
        return _Scale(magnitude=magnitude, atol=atol)
    oracle_square, oracle_fourth, error_square, excess = moments
    total = leaf.expected.numel()
    rms = math.sqrt(oracle_square / total)
    effective = oracle_square**2 / oracle_fourth if oracle_fourth else 1.0
    gain = max(1.0, SCALAR_GAIN / math.sqrt(effective))
    return _Scale(
        magnitude=magnitude,
        atol=max(atol, min(EXCESS_GAIN * excess, ATOL_CAP * magnitude)),
        excess=excess,
        oracle_rms=rms,
        eager_error=math.sqrt(error_square / total),
        floor=FLOOR_EPS.get(dtype, NARROW_FLOOR_EPS) * info.eps * rms * gain,
    )


def _oracle_moments(
    expected: torch.Tensor, oracle: torch.Tensor, rtol: float
) -> list[torch.Tensor]:
    """Sum o^2, sum o^4, sum (e - o)^2, max(|e - o| - rtol / EXCESS_GAIN * |o|) of a chunk."""
    error = elements.difference(expected, oracle)
    size = elements.finite(oracle).abs_()
    moments = [_square(size), torch.linalg.vector_norm(size, 4) ** 4, _square(error)]
    return [*moments, _largest(error.abs_().sub_(size, alpha=rtol / EXCESS_GAIN).clamp_(min=0))]


def _errors(leaf: _Leaf, scale: _Scale) -> tuple[bool, float, float, float]:
    """(assert_close holds, max |a - e|, max |a - e| / max(|e|, magnitude), rms(a - oracle)).

    Only elements that are finite on both sides enter the three errors.
    """
    close, rows = True, []
    smallest = max(scale.magnitude, 1e-300)
    for _, (actual, expected, *oracle) in leaf.chunks(leaf.actual, leaf.expected, leaf.oracle):
        # Nobody fails for being nearer to the truth than eager is: the oracle will do as well.
        close = close and (
            _close(actual, expected, leaf.tolerance.rtol, scale.atol)
            or any(
                _close(actual, o.to(actual.dtype), leaf.tolerance.rtol, scale.atol) for o in oracle
            )
        )
        error = elements.difference(actual, expected)
        row = [_largest(error)]
        row.append(_largest(error.div_(elements.finite(expected).abs_().clamp_(min=smallest))))
        row += [_square(elements.difference(actual, o)) for o in oracle]
        rows.append(torch.stack(row))
    max_abs, max_rel, *square = _reduce(rows, maxima=(0, 1))
    return close, max_abs, max_rel, math.sqrt(sum(square) / leaf.expected.numel())


def _close(actual: Any, expected: Any, rtol: float, atol: float) -> bool:
    if isinstance(actual, torch.Tensor):
        actual, expected = elements.comparable(actual), elements.comparable(expected)
    try:
        torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError:
        return False
    except RuntimeError as error:  # assert_close wraps whatever goes wrong inside it
        if isinstance(error.__cause__, torch.OutOfMemoryError):
            raise error.__cause__ from None
        raise
    return True


def _square(values: torch.Tensor) -> torch.Tensor:
    norm: torch.Tensor = torch.linalg.vector_norm(values)
    return norm.square()


def _largest(values: torch.Tensor) -> torch.Tensor:
    largest: torch.Tensor = torch.linalg.vector_norm(values, math.inf)
    return largest


def _reduce(rows: list[torch.Tensor], *, maxima: tuple[int, ...]) -> list[float]:
    """Chunk rows -> one row: the largest of the columns in `maxima`, the sum of the others."""
    columns = torch.stack(rows).T.tolist()  # the pass's one sync
    return [max(c) if i in maxima else math.fsum(c) for i, c in enumerate(columns)]
