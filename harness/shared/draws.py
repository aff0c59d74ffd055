"""Values drawn from a seed: what may be done to them, and how they may lie in memory.

A *variation* changes drawn values, a *layout* only where they lie: the same values in a view
with gaps, or between guards that no honest kernel reads or writes. Gaps and guards are NaN;
around integers, which often are indices, they repeat the tensor's own values.
"""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from harness.shared.mixing import Mix
from harness.shared.trees import inexact, map_tensors, once, walk_tensors

GUARD = 4096  # elements before and after a guarded tensor; keeps its alignment
_CHUNK = 1 << 26  # elements; bounds the temporaries of a variation


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Names one set of inputs: a seed, a key of `VARIATIONS` and one of `LAYOUTS`; with `mix`,
    part of the values is another draw's."""

    seed: int
    variation: str = "as_given"
    layout: str = "contiguous"
    mix: Mix | None = None


@dataclass(frozen=True, kw_only=True)
class GradDraw:
    """Names the gradients of a call's outputs: a seed and a key of `GRAD_LAYOUTS`."""

    seed: int
    layout: str = "contiguous"


# --- variations -------------------------------------------------------------------------------
# All but `signs` scale by positive factors: zeros and positivity (of a logarithm's argument,
# say) stay as the problem drew them. Where the reference fails on one, it is left out.


def _as_given(tensor: torch.Tensor, generator: torch.Generator) -> None:
    """The values as drawn."""


def _scaled(tensor: torch.Tensor, generator: torch.Generator) -> None:
    """All values of a tensor by one factor, log-uniform in [1/4, 4]."""
    tensor.mul_(4 ** (2 * _uniform(generator) - 1))


def _heavy_tailed(tensor: torch.Tensor, generator: torch.Generator) -> None:
    """Each value by its own factor exp(normal): a few dominate."""
    for chunk in _chunks(tensor):
        factor = torch.empty(chunk.shape, dtype=torch.float32, device=chunk.device)
        chunk.mul_(factor.normal_(generator=generator).exp_())


def _region(tensor: torch.Tensor, generator: torch.Generator) -> None:
    """One contiguous stretch, 1/16 of the tensor, by a factor in [4, 16]."""
    flat = tensor.view(-1)
    length = max(1, flat.numel() // 16)
    start = int(_uniform(generator) * (flat.numel() - length + 1))
    flat[start : start + length].mul_(4 * 4 ** _uniform(generator))


def _signs(tensor: torch.Tensor, generator: torch.Generator) -> None:
    """Half of the values negated: where all are positive, `relu` and `abs` do nothing."""
    for chunk in _chunks(tensor):
        sign = torch.empty(chunk.shape, dtype=torch.float32, device=chunk.device)
        chunk.mul_(sign.uniform_(-1, 1, generator=generator).sign_())


def _large(tensor: torch.Tensor, generator: torch.Generator) -> None:
    """All values of a tensor by one large power of two: exponentials overflow."""
    tensor.mul_(2.0 ** _exponent(tensor.dtype, generator))


def _small(tensor: torch.Tensor, generator: torch.Generator) -> None:
    """All values of a tensor by one small power of two: an epsilon shows."""
    tensor.mul_(2.0 ** -_exponent(tensor.dtype, generator))


def _exponent(dtype: torch.dtype, generator: torch.Generator) -> int:
    """8 to 12; 3 to 5 in float16, whose squares overflow at 256 and vanish at 2^-12."""
    least, most = (3, 5) if dtype is torch.float16 else (8, 12)
    return least + int((most - least + 1) * _uniform(generator))


VARIATIONS: dict[str, Callable[[torch.Tensor, torch.Generator], None]] = {
    "as_given": _as_given,
    "scaled": _scaled,
    "heavy_tailed": _heavy_tailed,
    "region": _region,
    "signs": _signs,
    "large": _large,
    "small": _small,
}


def vary(inputs: list[Any], draw: Draw) -> None:
    """Apply the variation of `draw`, in place, to each floating tensor of `inputs`, and to the
    real and imaginary parts of each complex one."""
    change = VARIATIONS[draw.variation]
    if change is _as_given:  # no random numbers either: tensors without data have none
        return
    for path, tensor in walk_tensors(inputs, ""):
        if inexact(tensor) and tensor.numel():
            values = once(tensor)
            dense = values.contiguous()
            parts = torch.view_as_real(dense) if dense.is_complex() else dense
            change(parts, generator(draw.seed, path, tensor.device))
            if not values.is_contiguous():
                values.copy_(dense)


def generator(seed: int, path: str, device: torch.device) -> torch.Generator:
    """Random numbers of one tensor: the path keeps two of one draw from being treated alike."""
    return torch.Generator(device).manual_seed(_seed(seed, path))


def _seed(seed: int, path: str) -> int:
    return seed ^ zlib.crc32(path.encode())


def _uniform(source: torch.Generator) -> float:
    return float(torch.rand((), generator=source, device=source.device))


def _chunks(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    flat = tensor.view(-1)
    for i in range(math.ceil(flat.numel() / _CHUNK)):
        yield flat[i * _CHUNK : (i + 1) * _CHUNK]


# --- layouts ----------------------------------------------------------------------------------


def _contiguous(tensor: torch.Tensor) -> torch.Tensor:
    """As the problem made it."""
    return tensor


def _strided(tensor: torch.Tensor) -> torch.Tensor:
    """Every other element of rows that are longer than those of the tensor."""
    if tensor.ndim == 0:
        return tensor
    *rows, columns = tensor.shape
    width = 2 * columns + 2
    buffer = _filled(tensor, math.prod(rows) * width).view(*rows, width)
    return buffer[..., 1:-1:2].copy_(tensor)


def _guarded(tensor: torch.Tensor) -> torch.Tensor:
    """Contiguous, in the middle of a larger buffer."""
    buffer = _filled(tensor, tensor.numel() + 2 * GUARD)
    return buffer[GUARD : GUARD + tensor.numel()].view(tensor.shape).copy_(tensor)


def _misaligned(tensor: torch.Tensor) -> torch.Tensor:
    """Contiguous, one element past an aligned address: loads of 16 bytes at once fail there."""
    return _filled(tensor, tensor.numel() + 1)[1:].view(tensor.shape).copy_(tensor)


def _expanded(tensor: torch.Tensor) -> torch.Tensor:
    """One value everywhere with strides of 0, as `.sum().backward()` gives."""
    return tensor.reshape(-1)[0].clone().expand(tensor.shape) if tensor.numel() else tensor


Layout = Callable[[torch.Tensor], torch.Tensor]
LAYOUTS: dict[str, Layout] = {
    "contiguous": _contiguous,
    "strided": _strided,
    "guarded": _guarded,
    "misaligned": _misaligned,
}
#: `ones` is what `lint` tries in place of random gradients: as if they were never read.
GRAD_LAYOUTS: dict[str, Layout] = LAYOUTS | {"expanded": _expanded, "ones": torch.ones_like}


def lay_out(inputs: list[Any], draw: Draw) -> list[Any]:
    """`inputs` with each of their tensors in the layout of `draw`."""
    return [map_tensors(LAYOUTS[draw.layout], value) for value in inputs]


def _filled(tensor: torch.Tensor, count: int) -> torch.Tensor:
    """A flat buffer like `tensor` that holds NaN, or the tensor's own values again and again."""
    if inexact(tensor):
        return torch.full((count,), math.nan, dtype=tensor.dtype, device=tensor.device)
    repeats = math.ceil(count / max(1, tensor.numel()))
    return tensor.reshape(-1).repeat(repeats)[:count].clone()


def surroundings(tensor: torch.Tensor) -> torch.Tensor:
    """The whole buffer, flat, that `tensor` lies in."""
    size = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.detach().as_strided((size,), (1,), 0)


# --- gradients of outputs ---------------------------------------------------------------------


def grad_outputs(
    outputs: dict[str, torch.Tensor], draw: GradDraw, dtype: torch.dtype
) -> dict[str, torch.Tensor]:
    """Random gradients for `outputs`, by path; rounded to `dtype`, then of the output's type.

    Normal; a single element, or one value everywhere, lies well off 0, between 1/2 and 3/2.
    """
    grads = {}
    for path, output in outputs.items():
        shape = (*output.shape, 2) if output.is_complex() else output.shape  # both parts
        grad = torch.empty(shape, dtype=torch.float32, device=output.device)
        if output.numel() == 1 or draw.layout == "expanded":
            source = random.Random(_seed(draw.seed, path))  # no wait for a device
            for part in grad.unbind(-1) if output.is_complex() else (grad,):
                part.fill_(source.choice((-1.0, 1.0)) * source.uniform(0.5, 1.5))
        else:
            grad.normal_(generator=generator(draw.seed, path, output.device))
        grad = grad.to(dtype).to(output.dtype.to_real())
        grad = torch.view_as_complex(grad) if output.is_complex() else grad
        grads[path] = GRAD_LAYOUTS[draw.layout](grad)
    return grads
