"""How a result differs from the reference's, in one line: where, how much, and likely why.

Called by `compare` once something is wrong, so it may take its time.
"""

from __future__ import annotations

from typing import Any

import torch

from harness.judge.checking import causes, elements
from harness.judge.checking.elements import Chunks
from harness.wording import counted

_KINDS: tuple[type, ...] = (torch.Tensor, tuple, list, dict, type(None), bool, int, float)


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
        return f"{counted(len(actual), 'element')}, but the reference gives {len(expected)}"
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
        return shapes + causes.of_shape(actual, expected, rtol, atol_scale)
    if actual.dtype != expected.dtype:
        return f"dtype {_name(actual.dtype)}, but the reference gives {_name(expected.dtype)}"
    if actual.device.type != expected.device.type:
        return f"on {actual.device.type}, but the reference's is on {expected.device.type}"
    return None


def _name_layout(tensor: torch.Tensor) -> str:
    return str(tensor.layout).removeprefix("torch.")


# --- values


def of_values(
    actual: torch.Tensor, expected: torch.Tensor, pieces: Chunks, rtol: float, atol: float
) -> str:
    """Which elements are wrong, and a guess at why. Shapes are equal; not complex."""
    fault = causes.Fault.of(pieces, rtol, atol)
    text = (
        f"{fault.wrong} of {counted(fault.total, 'element')} wrong "
        f"({100 * fault.wrong / fault.total:.3g}%), first {_pair(actual, expected, fault.first)}"
    )
    if fault.worst not in (None, fault.first):
        text += f", worst {_pair(actual, expected, fault.worst)}"
    hint = causes.guess(causes.Sample.of(actual, expected, rtol, atol), fault)
    return f"{text}; {hint}" if hint else text


def of_precision(
    actual: torch.Tensor, expected: torch.Tensor, ratio: float, limit: float, relative: float
) -> str:
    """Right to the tolerance, but less precise than the dtype; `relative`: rms error / rms."""
    name = _name(expected.dtype)
    text = f"error {ratio:.3g}x that of eager {name} (limit {limit:g}): "
    if narrow := causes.narrow(causes.Sample.of(actual, expected, 0.0, 0.0).finite()):
        return text + narrow
    # One rounding costs 0.21 eps rms, eps being 2^-10 for TF32 and float16, 2^-7 for bfloat16.
    if expected.dtype is torch.float32 and 2**-14 < relative < 2**-6:
        return text + f"looks like {'TF32 or float16' if relative < 2**-10 else 'bfloat16'} inside"
    return text + "a lower precision, an approximation or a long sequential sum inside"


def _pair(actual: torch.Tensor, expected: torch.Tensor, flat: int) -> str:
    """`at [0, 3]: 1.5 for 2.25`, with as many digits as it takes to tell them apart."""
    index = elements.coordinates(torch.tensor(flat), actual.shape)
    a, e = actual[index].item(), expected[index].item()
    where = [int(i) for i in index]
    if not isinstance(a, float):
        return f"at {where}: {a} for {e}"
    digits = 6 if f"{a:.6g}" != f"{e:.6g}" else 17
    return f"at {where}: {a:.{digits}g} for {e:.{digits}g}"
