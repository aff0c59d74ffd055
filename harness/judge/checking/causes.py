"""Why a leaf is likely wrong: the faults counted, a sample looked at, the first cause that fits.

Guesses look at up to `elements.SAMPLE` elements.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from harness.judge.checking import elements
from harness.judge.checking.elements import Chunks

#: Largest relative error that a narrower type is held to explain; bfloat16 rounds to 2^-8.
ROUNDING = 0.1


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Counts over a whole leaf; indices are flat. `worst` is None without a finite wrong pair."""

    total: int
    wrong: int
    first: int
    last: int
    worst: int | None
    only_nan: int  # NaN where the reference has none
    only_inf: int  # infinite where the reference is finite
    lost: int  # finite where the reference is not

    @classmethod
    def of(cls, pieces: Chunks, rtol: float, atol: float) -> Fault:
        """Counted over the pieces, chunk by chunk."""
        total = wrong = first = last = only_nan = only_inf = lost = 0
        worst, worst_error = None, -1.0
        for start, (actual, expected) in pieces:
            bad = ~elements.isclose(actual, expected, rtol, atol)
            total += bad.numel()
            count = int(bad.sum())
            if count == 0:
                continue
            bytes_ = bad.byte()
            first = first if wrong else start + int(bytes_.argmax())
            last = start + bad.numel() - 1 - int(bytes_.flip(0).argmax())
            wrong += count
            both = actual.isfinite() & expected.isfinite()
            error = elements.difference(actual, expected).abs_().masked_fill_(~(bad & both), -1.0)
            at = int(error.argmax())
            if (largest := float(error[at])) > worst_error:
                worst, worst_error = start + at, largest
            only_nan += int((actual.isnan() & ~expected.isnan()).sum())
            only_inf += int((actual.isinf() & expected.isfinite()).sum())
            lost += int((actual.isfinite() & ~expected.isfinite()).sum())
        return cls(
            total=total, wrong=wrong, first=first, last=last, worst=worst,
            only_nan=only_nan, only_inf=only_inf, lost=lost,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Up to `SAMPLE` elements, in order; values in float64."""

    flat: torch.Tensor  # (n,) flat indices
    actual: torch.Tensor  # (n,)
    expected: torch.Tensor  # (n,)
    bad: torch.Tensor  # (n,) bool
    whole: torch.Tensor  # the reference's leaf
    rtol: float
    atol: float

    @classmethod
    def of(cls, actual: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float) -> Sample:
        """Taken of a leaf on both sides."""
        expected = expected.to(actual.device)
        flat = elements.positions(actual.numel(), actual.device)
        a, e = elements.take(actual, flat), elements.take(expected, flat)
        return cls(
            flat=flat,
            actual=a.double(),
            expected=e.double(),
            bad=~elements.isclose(a, e, rtol, atol),
            whole=expected,
            rtol=rtol,
            atol=atol,
        )

    def finite(self) -> Sample:
        """Those elements that are finite on both sides."""
        keep = self.actual.isfinite() & self.expected.isfinite()
        names = ("flat", "actual", "expected", "bad")
        return dataclasses.replace(self, **{name: getattr(self, name)[keep] for name in names})

    @property
    def bad_share(self) -> float:
        return float(self.bad.double().mean())

    def fits(self, candidate: torch.Tensor, gain: float = 1.0) -> bool:
        """Nearly all of the actual values are the candidate's; `gain` scales atol along."""
        near = torch.isclose(self.actual, candidate, rtol=self.rtol, atol=self.atol * abs(gain))
        return bool(near.double().mean() > 0.999)


def guess(sample: Sample, fault: Fault) -> str | None:
    """What the first cause that knows says; of what is not finite, also where it lies."""
    if said := _not_finite(fault):
        where = _first(PLACES, sample, fault)
        never = ": never written?" if fault.only_nan else ""  # memory holds NaN before a call
        return f"{said}; {where}{never}" if where else said
    return _first(CAUSES, sample.finite(), fault)


def _first(causes: Sequence[Cause], sample: Sample, fault: Fault) -> str | None:
    return next((hint for cause in causes if (hint := cause(sample, fault))), None)


def of_shape(actual: torch.Tensor, expected: torch.Tensor, rtol: float, atol_scale: float) -> str:
    """Are the values right but for the shape? A sample decides; nothing for complex numbers."""
    if actual.numel() != expected.numel() or not actual.numel() or expected.is_complex():
        return ""
    flat = elements.positions(actual.numel(), actual.device)
    got = elements.take(actual, flat).double()
    want = elements.take(expected.to(actual.device), flat).double()
    atol = atol_scale * float(elements.finite(want).square().mean().sqrt())
    if torch.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True).all():
        return "; right values, only the shape differs"
    for order in _permutations(expected.ndim):
        view = expected.permute(order)
        if view.shape == actual.shape:
            want = elements.take(view.to(actual.device), flat).double()
            if torch.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True).all():
                return f"; right values, but transposed (dimensions in the order {list(order)})"
    return ""


# --- causes: (sample, fault) -> a guess or None


def _not_finite(fault: Fault) -> str | None:
    if fault.only_nan:
        return f"NaN in {fault.only_nan} where the reference has none"
    if fault.only_inf:
        return f"infinite in {fault.only_inf} where the reference is finite"
    return f"finite in {fault.lost} where the reference is not" if fault.lost else None


def _constant(sample: Sample, fault: Fault) -> str | None:
    count = sample.actual.numel()
    if not count or sample.actual.min() != sample.actual.max():
        return None
    value = float(sample.actual[0])
    if value == 0:
        return "all zeros" if count > 1 else "zero: was it ever written?"
    return f"the same value {value:.6g} everywhere" if count > 1 else None


def _factor(sample: Sample, fault: Fault) -> str | None:
    """Least squares: actual = factor * reference."""
    square = float(sample.expected @ sample.expected)
    if square == 0 or sample.bad_share < 0.5:
        return None
    factor = float(sample.actual @ sample.expected) / square
    if f"{factor:.6g}" in ("0", "1") or not sample.fits(sample.expected * factor, factor):
        return None
    if abs(factor + 1) <= sample.rtol:
        return "sign flipped"
    whole = round(1 / factor)
    name = f" (1/{whole})" if abs(whole) > 1 and abs(factor * whole - 1) <= sample.rtol else ""
    return f"everywhere {factor:.6g}x the reference{name}"


def _offset(sample: Sample, fault: Fault) -> str | None:
    if sample.actual.numel() < 2 or sample.bad_share < 0.5:
        return None
    offset = float((sample.actual - sample.expected).median())
    fits = sample.fits(sample.expected + offset)
    return f"everywhere the reference {offset:+.6g}" if fits else None


def _permutations(dims: int) -> Iterator[tuple[int, ...]]:
    """All orders of two to four dimensions; the identity is left out, `mT` comes first."""
    return itertools.islice(itertools.permutations(range(dims if dims <= 4 else 0)), 1, None)


def _permuted(sample: Sample, fault: Fault) -> str | None:
    for order in _permutations(sample.whole.ndim):
        view = sample.whole.permute(order)
        if view.shape != sample.whole.shape or sample.bad_share < 0.002:
            continue
        if sample.fits(elements.take(view, sample.flat).double()):
            return f"the reference transposed (dimensions in the order {list(order)})"
    return None


def _stretch(sample: Sample, fault: Fault) -> str | None:
    """Wrong in one stretch of flat indices and nowhere else."""
    first, last, end = fault.first, fault.last, fault.total - 1
    if fault.wrong < max(2, 0.9 * (last - first + 1)) or (first, last) == (0, end):
        return None
    if last < end:
        return f"wrong only in flat indices {first} to {last}"
    text = f"right up to flat index {first}, wrong past it"
    for unit, size in (("index", 1), ("byte offset", sample.whole.element_size())):
        for power in (31, 32):
            if abs(first * size / 2**power - 1) < 0.01:
                return f"{text}: near 2^{power}, a 32-bit {unit} that overflows?"
    return text


def _box(sample: Sample, fault: Fault) -> str | None:
    """Wrong only in part of one dimension: a tail, a row, a channel."""
    if not sample.bad.any():
        return None
    for dim, index in enumerate(elements.coordinates(sample.flat, sample.whole.shape)):
        low, high = int(index[sample.bad].min()), int(index[sample.bad].max())
        size = sample.whole.shape[dim]
        inside = sample.bad[(index >= low) & (index <= high)]
        if high - low + 1 < 0.9 * size and inside.double().mean() > 0.5:
            where = f"{low} to {high}" if low < high else low
            return f"wrong only where index {dim} is {where} of 0 to {size - 1}"
    return None


def _by_size(sample: Sample, fault: Fault) -> str | None:
    """Right and wrong elements told apart by the reference's value; near zero all are right."""
    clear = sample.expected.abs() > 2 * sample.atol
    bad, good = sample.expected[clear & sample.bad], sample.expected[clear & ~sample.bad]
    if min(bad.numel(), good.numel()) < 8:
        return None
    if bad.max() < 0 <= good.min():
        return "wrong only where the reference is negative"
    most = float(good.abs().max())
    if most <= float(bad.abs().min()):
        return f"right only where |reference| is at most {most:.4g}"
    most = float(bad.abs().max())
    if most <= float(good.abs().min()):
        return f"wrong only where |reference| is at most {most:.4g}"
    return None


def narrow(sample: Sample, fault: Fault | None = None) -> str | None:
    """All actual values are numbers of a narrower type, the reference's are not, and between them
    lies no more than rounding."""
    dtype = sample.whole.dtype
    if float((sample.actual - sample.expected).norm()) > ROUNDING * float(sample.expected.norm()):
        return None
    for less in (torch.bfloat16, torch.float16, torch.float32):
        if dtype.is_floating_point and torch.finfo(less).eps > torch.finfo(dtype).eps:
            same = [bool((x == x.to(less)).all()) for x in (sample.actual, sample.expected)]
            if same == [True, False]:
                name = str(less).removeprefix("torch.")
                return f"every value is a {name} number: computed or stored in it"
    return None


Cause: TypeAlias = Callable[[Sample, Fault], str | None]
PLACES: tuple[Cause, ...] = (_stretch, _box)
CAUSES: tuple[Cause, ...] = (
    *(_constant, narrow, _factor, _offset, _permuted),
    *PLACES,
    _by_size,
)
