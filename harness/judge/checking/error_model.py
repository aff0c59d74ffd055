"""How far a leaf is off, and how far it may be: docs/error_model.md has figures and derivations.

A pass over the reference's result gives its magnitude, and with an fp64 oracle how far eager
PyTorch itself is off; a pass over both results gives the errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from harness.judge.checking import elements

# `assert_close` asks whether it is given a DTensor, which nothing here is, and for that imports
# torch.distributed.tensor, SymPy included: half a second in torch 2.14. Earlier ones do not ask.
torch.testing._comparison._HAS_DTENSOR = False

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
# Of inputs that were varied: a tanh of +-2000 answers to its input in a few elements alone, and the
# largest of eager's errors in those says little of the largest of another's.
VARIED_GAIN = 16.0
ATOL_CAP = 0.1


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """What `assert_close` allows: |actual - expected| <= atol + rtol * |expected|, with atol =
    atol_scale * (rms of the leaf's finite non-zero elements), or `atol` where that is more, or
    `excess_gain` times as much as eager itself is off by, where that is more (see there)."""

    rtol: float
    atol_scale: float
    atol: float = 0.0
    excess_gain: float = EXCESS_GAIN


@dataclass(frozen=True, kw_only=True)
class Leaf:
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


@dataclass(frozen=True, kw_only=True)
class Scale:
    """What a pass over the reference's result says about a leaf.

    `magnitude` is the rms of the finite non-zero elements: zeros (padding, relu, sparse
    gradients) must not shrink it, and few large elements move it less than they move the
    maximum. It is at most the maximum, so zeros fail for every atol below it. `eager_error` is
    the rms of expected - oracle, `floor` the least that it counts as, and `excess` the largest
    part of one element's error that rtol does not explain, or 0 where that is too small to matter.
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


def scale_of(leaf: Leaf) -> Scale:
    """A pass over what the reference gives."""
    if not leaf.expected.is_floating_point():
        return Scale(magnitude=0.0, atol=0.0)
    sizes = _sizes(leaf, lambda values: values, torch.sub)
    if not all(map(math.isfinite, sizes)):  # seldom, and it takes three times as long
        sizes = _sizes(leaf, elements.finite, elements.difference)
    square, count, largest, *moments = sizes
    magnitude = min(math.sqrt(square / max(count, 1.0)), largest)  # min: squares may overflow
    info, dtype = torch.finfo(leaf.expected.dtype), leaf.expected.dtype
    # Below the smallest normal number a GPU may flush to zero; float16's are kept.
    step = info.tiny * (info.eps if dtype is torch.float16 else 1.0)
    atol = max(leaf.tolerance.atol_scale * magnitude, leaf.tolerance.atol, step)
    if not moments:
        return Scale(magnitude=magnitude, atol=atol)
    oracle_square, oracle_fourth, error_square, largest_error = moments
    total, gain, cap = leaf.expected.numel(), leaf.tolerance.excess_gain, ATOL_CAP * magnitude
    excess = _excess(leaf) if max(gain, EXCESS_GAIN) * largest_error > min(atol, cap) else 0.0
    rms = math.sqrt(oracle_square / total)
    effective = oracle_square**2 / oracle_fourth if oracle_fourth else 1.0
    scalar_gain = max(1.0, SCALAR_GAIN / math.sqrt(effective))
    return Scale(
        magnitude=magnitude,
        atol=max(atol, min(gain * excess, cap)),
        excess=excess,
        oracle_rms=rms,
        eager_error=math.sqrt(error_square / total),
        floor=FLOOR_EPS.get(dtype, NARROW_FLOOR_EPS) * info.eps * rms * scalar_gain,
    )


def _sizes(
    leaf: Leaf,
    finite: Callable[[torch.Tensor], torch.Tensor],
    difference: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> list[float]:
    """Sum e^2, how many e are not zero, max |e|; and with an oracle sum o^2, sum o^4,
    sum (e - o)^2, max |e - o|. Of what is not finite, as `finite` and `difference` have it."""
    rows = []
    for _, (chunk, *oracle) in leaf.chunks(leaf.expected, leaf.oracle):
        expected = finite(chunk)
        row = [_square(expected), torch.count_nonzero(expected).double(), _largest(expected)]
        del expected
        for o in oracle:
            size, error = finite(o), difference(chunk, o)
            fourth = torch.linalg.vector_norm(size, 4) ** 4
            row += [_square(size), fourth, _square(error), _largest(error)]
        rows.append(torch.stack(row))
    return _reduce(rows, maxima=(2, 6))


def _excess(leaf: Leaf) -> float:
    """max(|e - o| - rtol / EXCESS_GAIN * |o|), or 0."""
    part, rows = leaf.tolerance.rtol / EXCESS_GAIN, []
    for _, (expected, oracle) in leaf.chunks(leaf.expected, leaf.oracle):
        error = elements.difference(expected, oracle).abs_()
        size = elements.finite(oracle).abs_()
        rows.append(torch.stack([_largest(error.sub_(size, alpha=part).clamp_(min=0))]))
    return _reduce(rows, maxima=(0,))[0]


def errors(leaf: Leaf, scale: Scale) -> tuple[bool, float, float, float]:
    """(assert_close holds, max |a - e|, max |a - e| / max(|e|, magnitude), rms(a - oracle)).

    Only elements that are finite on both sides enter the three errors.
    """
    if leaf.expected.is_floating_point():
        max_abs, max_rel, error = _differences(leaf, scale)
        if max_abs <= scale.atol and math.isfinite(error):
            return True, max_abs, max_rel, error  # and so would `assert_close`, five times slower
    close, rows = True, []
    smallest = max(scale.magnitude, 1e-300)
    for _, (actual, expected, *oracle) in leaf.chunks(leaf.actual, leaf.expected, leaf.oracle):
        # Nobody fails for being nearer to the truth than eager is: the oracle will do as well.
        close = close and (
            holds(actual, expected, leaf.tolerance.rtol, scale.atol)
            or any(
                holds(actual, o.to(actual.dtype), leaf.tolerance.rtol, scale.atol) for o in oracle
            )
        )
        difference = elements.difference(actual, expected)
        row = [_largest(difference)]
        row.append(_largest(difference.div_(elements.finite(expected).abs_().clamp_(min=smallest))))
        row += [_square(elements.difference(actual, o)) for o in oracle]
        rows.append(torch.stack(row))
    max_abs, max_rel, *square = _reduce(rows, maxima=(0, 1))
    return close, max_abs, max_rel, math.sqrt(sum(square) / leaf.expected.numel())


def _differences(leaf: Leaf, scale: Scale) -> tuple[float, float, float]:
    """The three errors of `errors`; NaN where something is not finite."""
    rows = []
    for _, (actual, expected, *oracle) in leaf.chunks(leaf.actual, leaf.expected, leaf.oracle):
        size = elements.comparable(expected)
        error = elements.comparable(actual) - size
        smallest = max(scale.magnitude, torch.finfo(size.dtype).tiny)
        row = [_largest(error), _largest(error / size.abs().clamp_(min=smallest))]
        row += [_square(torch.sub(actual, o)) for o in oracle]
        rows.append(torch.stack(row))
    max_abs, max_rel, *square = _reduce(rows, maxima=(0, 1))
    return max_abs, max_rel, math.sqrt(sum(square) / leaf.expected.numel())


def holds(actual: Any, expected: Any, rtol: float, atol: float) -> bool:
    """Whether `assert_close` does, of tensors or numbers."""
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
    norm: torch.Tensor = torch.linalg.vector_norm(values, dtype=torch.float64)
    return norm.square()


def _largest(values: torch.Tensor) -> torch.Tensor:
    largest: torch.Tensor = torch.linalg.vector_norm(values, math.inf, dtype=torch.float64)
    return largest


def _reduce(rows: list[torch.Tensor], *, maxima: tuple[int, ...]) -> list[float]:
    """Chunk rows -> one row: the largest of the columns in `maxima`, the sum of the others; NaN
    where one of them is, which `max` alone would pass over."""
    columns = torch.stack(rows).T.tolist()  # the pass's one sync
    return [
        max(c, key=lambda value: (math.isnan(value), value)) if i in maxima else math.fsum(c)
        for i, c in enumerate(columns)
    ]
