"""How a result differs from the reference's, in one line: where, how much, and likely why.

Called by `compare` once something is wrong, so it may take its time; guesses at the cause look
at up to 2^20 elements. Also the ways to read big tensors that `compare` shares: in chunks, as
float64, finite parts only; none of them writes to its argument.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

SAMPLE = 1 << 20
_KINDS: tuple[type, ...] = (torch.Tensor, tuple, list, dict, type(None), bool, int, float)
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
Chunks = Iterable[tuple[int, list[torch.Tensor]]]


def real(tensor: torch.Tensor) -> torch.Tensor:
    """Complex as (real, imaginary) in a new last dimension; others as they are."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def chunks(tensors: Sequence[torch.Tensor], limit: int) -> Iterator[tuple[int, list[torch.Tensor]]]:
    """(flat start, flat pieces of at most `limit` elements) of tensors of one shape, in order.

    Pieces of contiguous tensors are views; of others, copies. All are brought to the device of
    the first: an oracle may live in host memory.
    """
    total, device = tensors[0].numel(), tensors[0].device
    if total <= limit or all(t.is_contiguous() for t in tensors):
        flat = [t.reshape(-1) for t in tensors]
        for start in range(0, total, limit):
            yield start, [t[start : start + limit].to(device) for t in flat]
        return
    rows = tensors[0].shape[0]
    row = total // rows
    step = max(1, limit // row)
    for i in range(0, rows, step):
        part = [t[i] if row > limit else t[i : i + step] for t in tensors]
        for start, pieces in chunks(part, limit):
            yield i * row + start, pieces


def comparable(values: torch.Tensor) -> torch.Tensor:
    """A chunk as what `isclose` is exact on: small floats as float32, unsigned as signed."""
    if values.is_floating_point() and values.element_size() < 4:
        return values.float()
    return values.view(_SIGNED[values.dtype]) if values.dtype in _SIGNED else values


def finite(values: torch.Tensor) -> torch.Tensor:
    """A float64 copy with 0 for NaN and infinities."""
    return values.to(torch.float64, copy=True).nan_to_num_(0.0, 0.0, 0.0)


def difference(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """left - right in float64, 0 where either is not finite."""
    right = comparable(right) if right.is_floating_point() else right.double()
    return left.to(torch.float64, copy=True).sub_(right).nan_to_num_(0.0, 0.0, 0.0)


# --- structure and attributes


def _kind(value: object) -> type:
    return next((k for k in _KINDS if isinstance(value, k)), type(value))


def _brief(value: object) -> str:
    if isinstance(value, torch.Tensor):
        shape = "" if value.is_nested else f" of shape {list(value.shape)}"
        return f"a {_name(value.dtype)} tensor{shape}"
    return "None" if value is None else f"type {_kind(value).__name__}"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def of_structure(actual: Any, expected: Any, path: str) -> str | None:
    """The difference in kind, length or keys; `ValueError` for a reference of no known kind."""
    kind = _kind(expected)
    if kind not in _KINDS:
        raise ValueError(f"{path}: the reference gives a {kind.__name__}: cannot be compared")
    if _kind(actual) is not kind:
        return f"{_brief(actual)}, but the reference gives {_brief(expected)}"
    if kind in (tuple, list) and len(actual) != len(expected):
        return f"{len(actual)} elements, but the reference gives {len(expected)}"
    if kind is dict and actual.keys() != expected.keys():
        missing = [k for k in expected if k not in actual]
        extra = [k for k in actual if k not in expected]
        return f"other keys than the reference's: missing {missing}, extra {extra}"
    return None


def of_attributes(
    actual: torch.Tensor, expected: torch.Tensor, rtol: float, atol_scale: float
) -> str | None:
    """The difference in layout, shape, dtype or device type (its index is the judge's own)."""
    if actual.is_nested or actual.layout != expected.layout:
        layout = "nested" if actual.is_nested else _name_layout(actual)
        return f"layout {layout}, but the reference gives {_name_layout(expected)}"
    if actual.shape != expected.shape:
        shapes = f"shape {list(actual.shape)}, but the reference gives {list(expected.shape)}"
        return shapes + _shape_hint(actual, expected, rtol, atol_scale)
    if actual.dtype != expected.dtype:
        return f"dtype {_name(actual.dtype)}, but the reference gives {_name(expected.dtype)}"
    if actual.device.type != expected.device.type:
        return f"on {actual.device.type}, but the reference's is on {expected.device.type}"
    return None


def _name_layout(tensor: torch.Tensor) -> str:
    return str(tensor.layout).removeprefix("torch.")


# --- values


@dataclass(frozen=True, kw_only=True)
class _Fault:
    """Counts over a whole leaf; indices are flat. `worst` is None without a finite wrong pair."""

    total: int
    wrong: int
    first: int
    last: int
    worst: int | None
    only_nan: int  # NaN where the reference has none
    only_inf: int  # infinite where the reference is finite
    lost: int  # finite where the reference is not


def _fault(pieces: Chunks, rtol: float, atol: float) -> _Fault:
    total = wrong = first = last = only_nan = only_inf = lost = 0
    worst, worst_error = None, -1.0
    for start, (actual, expected) in pieces:
        bad = ~_isclose(actual, expected, rtol, atol)
        total += bad.numel()
        count = int(bad.sum())
        if count == 0:
            continue
        bytes_ = bad.byte()
        first = first if wrong else start + int(bytes_.argmax())
        last = start + bad.numel() - 1 - int(bytes_.flip(0).argmax())
        wrong += count
        both = actual.isfinite() & expected.isfinite()
        error = difference(actual, expected).abs_().masked_fill_(~(bad & both), -1.0)
        at = int(error.argmax())
        if (largest := float(error[at])) > worst_error:
            worst, worst_error = start + at, largest
        only_nan += int((actual.isnan() & ~expected.isnan()).sum())
        only_inf += int((actual.isinf() & expected.isfinite()).sum())
        lost += int((actual.isfinite() & ~expected.isfinite()).sum())
    return _Fault(
        total=total, wrong=wrong, first=first, last=last, worst=worst,
        only_nan=only_nan, only_inf=only_inf, lost=lost,
    )  # fmt: skip


def _isclose(
    actual: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float
) -> torch.Tensor:
    pair = comparable(actual), comparable(expected)
    return torch.isclose(*pair, rtol=rtol, atol=atol, equal_nan=True)


@dataclass(frozen=True, kw_only=True)
class _Sample:
    """Up to `SAMPLE` elements, in order, that are finite on both sides; values in float64."""

    flat: torch.Tensor  # (n,) flat indices
    actual: torch.Tensor  # (n,)
    expected: torch.Tensor  # (n,)
    bad: torch.Tensor  # (n,) bool
    whole: torch.Tensor  # the reference's leaf
    rtol: float
    atol: float

    @property
    def bad_share(self) -> float:
        return float(self.bad.double().mean())

    def fits(self, candidate: torch.Tensor, gain: float = 1.0) -> bool:
        """Nearly all of the actual values are the candidate's; `gain` scales atol along."""
        near = torch.isclose(self.actual, candidate, rtol=self.rtol, atol=self.atol * abs(gain))
        return bool(near.double().mean() > 0.999)


def _positions(total: int, device: torch.device) -> torch.Tensor:
    """Flat indices, sorted: all, or a fixed random `SAMPLE` of them."""
    if total <= SAMPLE:
        return torch.arange(total, device=device)
    source = torch.Generator().manual_seed(0)
    drawn, _ = torch.randint(total, (SAMPLE,), generator=source).sort()
    return drawn.to(device)


def _coordinates(flat: torch.Tensor, shape: Sequence[int]) -> tuple[torch.Tensor, ...]:
    index = []
    for size in reversed(shape):
        index.append(flat % size)
        flat = flat // size
    return tuple(reversed(index))


def _take(tensor: torch.Tensor, flat: torch.Tensor) -> torch.Tensor:
    """Elements at flat indices in C order, whatever the strides, without a full copy.

    Unsigned as signed: CUDA cannot index what is wider than a byte and unsigned.
    """
    tensor = tensor.view(_SIGNED.get(tensor.dtype, tensor.dtype))
    return tensor[_coordinates(flat, tensor.shape)].expand(flat.shape)


def _sample(actual: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float) -> _Sample:
    expected = expected.to(actual.device)
    flat = _positions(actual.numel(), actual.device)
    a, e = _take(actual, flat), _take(expected, flat)
    keep = a.isfinite() & e.isfinite()
    return _Sample(
        flat=flat[keep],
        actual=a[keep].double(),
        expected=e[keep].double(),
        bad=~_isclose(a, e, rtol, atol)[keep],
        whole=expected,
        rtol=rtol,
        atol=atol,
    )


def of_values(
    actual: torch.Tensor, expected: torch.Tensor, pieces: Chunks, rtol: float, atol: float
) -> str:
    """Which elements are wrong, and a guess at why. Shapes are equal; not complex."""
    fault = _fault(pieces, rtol, atol)
    text = (
        f"{fault.wrong} of {fault.total} elements wrong ({100 * fault.wrong / fault.total:.3g}%), "
        f"first {_pair(actual, expected, fault.first)}"
    )
    if fault.worst not in (None, fault.first):
        text += f", worst {_pair(actual, expected, fault.worst)}"
    sample = _sample(actual, expected, rtol, atol)
    hint = next((h for cause in _CAUSES if (h := cause(sample, fault))), None)
    return f"{text}; {hint}" if hint else text


def of_precision(
    actual: torch.Tensor, expected: torch.Tensor, ratio: float, limit: float, relative: float
) -> str:
    """Right to the tolerance, but less precise than the dtype; `relative`: rms error / rms."""
    name = _name(expected.dtype)
    text = f"error {ratio:.3g}x that of eager {name} (limit {limit:g}): "
    if narrow := _narrow(_sample(actual, expected, 0.0, 0.0)):
        return text + narrow
    # One rounding costs 0.21 eps rms, eps being 2^-10 for TF32 and float16, 2^-7 for bfloat16.
    if expected.dtype is torch.float32 and 2**-14 < relative < 2**-6:
        return text + f"looks like {'TF32 or float16' if relative < 2**-10 else 'bfloat16'} inside"
    return text + "a lower precision, an approximation or a long sequential sum inside"


def _pair(actual: torch.Tensor, expected: torch.Tensor, flat: int) -> str:
    """`at [0, 3]: 1.5 for 2.25`, with as many digits as it takes to tell them apart."""
    index = _coordinates(torch.tensor(flat), actual.shape)
    a, e = actual[index].item(), expected[index].item()
    where = [int(i) for i in index]
    if not isinstance(a, float):
        return f"at {where}: {a} for {e}"
    digits = 6 if f"{a:.6g}" != f"{e:.6g}" else 17
    return f"at {where}: {a:.{digits}g} for {e:.{digits}g}"


# --- causes: (sample, fault) -> a guess or None; the first that knows speaks


def _not_finite(sample: _Sample, fault: _Fault) -> str | None:
    if fault.only_nan:
        return f"NaN in {fault.only_nan} where the reference has none"
    if fault.only_inf:
        return f"infinite in {fault.only_inf} where the reference is finite"
    return f"finite in {fault.lost} where the reference is not" if fault.lost else None


def _constant(sample: _Sample, fault: _Fault) -> str | None:
    if sample.actual.numel() < 2 or sample.actual.min() != sample.actual.max():
        return None
    value = float(sample.actual[0])
    return "all zeros" if value == 0 else f"the same value {value:.6g} everywhere"


def _factor(sample: _Sample, fault: _Fault) -> str | None:
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


def _offset(sample: _Sample, fault: _Fault) -> str | None:
    if sample.actual.numel() < 2 or sample.bad_share < 0.5:
        return None
    offset = float((sample.actual - sample.expected).median())
    fits = sample.fits(sample.expected + offset)
    return f"everywhere the reference {offset:+.6g}" if fits else None


def _permutations(dims: int) -> Iterator[tuple[int, ...]]:
    """All orders of two to four dimensions; the identity is left out, `mT` comes first."""
    return itertools.islice(itertools.permutations(range(dims if dims <= 4 else 0)), 1, None)


def _permuted(sample: _Sample, fault: _Fault) -> str | None:
    for order in _permutations(sample.whole.ndim):
        view = sample.whole.permute(order)
        if view.shape != sample.whole.shape or sample.bad_share < 0.002:
            continue
        if sample.fits(_take(view, sample.flat).double()):
            return f"the reference transposed (dimensions in the order {list(order)})"
    return None


def _stretch(sample: _Sample, fault: _Fault) -> str | None:
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


def _box(sample: _Sample, fault: _Fault) -> str | None:
    """Wrong only in part of one dimension: a tail, a row, a channel."""
    if not sample.bad.any():
        return None
    for dim, index in enumerate(_coordinates(sample.flat, sample.whole.shape)):
        low, high = int(index[sample.bad].min()), int(index[sample.bad].max())
        size = sample.whole.shape[dim]
        inside = sample.bad[(index >= low) & (index <= high)]
        if high - low + 1 < 0.9 * size and inside.double().mean() > 0.5:
            return f"wrong only where index {dim} is {low} to {high} of 0 to {size - 1}"
    return None


def _by_size(sample: _Sample, fault: _Fault) -> str | None:
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


def _narrow(sample: _Sample, fault: _Fault | None = None) -> str | None:
    """All actual values are numbers of a narrower type, and the reference's are not."""
    dtype = sample.whole.dtype
    for narrow in (torch.bfloat16, torch.float16, torch.float32):
        if dtype.is_floating_point and torch.finfo(narrow).eps > torch.finfo(dtype).eps:
            same = [bool((x == x.to(narrow)).all()) for x in (sample.actual, sample.expected)]
            if same == [True, False]:
                return f"every value is a {_name(narrow)} number: computed or stored in it"
    return None


_CAUSES = (_not_finite, _constant, _factor, _offset, _permuted, _stretch, _box, _by_size, _narrow)


def _shape_hint(
    actual: torch.Tensor, expected: torch.Tensor, rtol: float, atol_scale: float
) -> str:
    """Are the values right but for the shape? A sample decides; nothing for complex numbers."""
    if actual.numel() != expected.numel() or not actual.numel() or expected.is_complex():
        return ""
    flat = _positions(actual.numel(), actual.device)
    got, want = _take(actual, flat).double(), _take(expected.to(actual.device), flat).double()
    atol = atol_scale * float(finite(want).square().mean().sqrt())
    if torch.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True).all():
        return "; right values, only the shape differs"
    for order in _permutations(expected.ndim):
        view = expected.permute(order)
        if view.shape == actual.shape:
            want = _take(view.to(actual.device), flat).double()
            if torch.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True).all():
                return f"; right values, but transposed (dimensions in the order {list(order)})"
    return ""
