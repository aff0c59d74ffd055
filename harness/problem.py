"""A problem file -> the reference `Model`, and inputs drawn from a seed.

Judge and worker both use this, each in its own process: the same seed gives both the same
inputs, and neither ships them. What the worker draws is not trusted: a solution that bends
the draw only ends up with other inputs than those that its answer is judged by.
"""

from __future__ import annotations

import ast
import inspect
import math
import random
import sys
import types
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from harness.errors import ProblemError, RequestError

FULL = "full"  # the size of the constants as written
_CHUNK = 1 << 26  # elements; bounds the temporaries of a variation


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Names one set of inputs: a seed and what is done to the drawn values."""

    seed: int
    variation: str = "as_given"


class Instance:
    """A problem at one size, dtype and device.

    `model(seed)` and `inputs(draw)` are deterministic in their argument. Floating tensors are
    drawn in float32 and cast to `dtype`; integers and booleans keep their type.
    Raises `ProblemError` where the file fails.
    """

    def __init__(
        self, *, source: str, path: str, size: str, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.path = path
        self.dtype = dtype
        self.device = device
        self._module = _execute(source, path, size)
        for name in ("Model", "get_inputs"):
            if not callable(self._module.get(name)):
                raise ProblemError(f"the problem file defines no {name}", path=path)
        signature = inspect.signature(self._module["Model"].forward)
        self.argument_names = list(signature.parameters)[1:]
        self.grad_inputs: tuple[str, ...] | None = self._module.get("GRAD_INPUTS")
        unknown = set(self.grad_inputs or ()) - set(self.argument_names)
        if unknown:
            raise ProblemError(
                f"GRAD_INPUTS names {sorted(unknown)}, forward takes {self.argument_names}",
                path=path,
            )

    @property
    def tolerances(self) -> dict[torch.dtype, tuple[float, float]]:
        """The file's own `TOLERANCES`: dtype -> (rtol, atol)."""
        return {
            getattr(torch, str(k).removeprefix("torch.")): (float(v[0]), float(v[1]))
            for k, v in self._module.get("TOLERANCES", {}).items()
        }

    def construct(self, cls: type[torch.nn.Module] | Callable[..., Any], seed: int) -> Any:
        """`cls(*get_init_inputs())` on the device, its random numbers drawn from `seed`."""
        _seed(seed)
        with torch.device(self.device):
            arguments = self.guard("get_init_inputs", lambda: self._module["get_init_inputs"]())
            model = cls(**arguments) if isinstance(arguments, dict) else cls(*arguments)
        is_module = isinstance(model, torch.nn.Module)
        return model.to(device=self.device, dtype=self.dtype) if is_module else model

    def model(self, seed: int) -> torch.nn.Module:
        """The reference with weights drawn from `seed`."""
        model: torch.nn.Module = self.guard(
            "Model", lambda: self.construct(self._module["Model"], seed)
        )
        return model

    def inputs(self, draw: Draw) -> list[Any]:
        """The forward arguments of `draw`, on the device, cast, varied. No grad is required."""
        _seed(draw.seed)
        with torch.no_grad():
            with torch.device(self.device):
                drawn = self.guard("get_inputs", lambda: list(self._module["get_inputs"]()))
            inputs = [map_tensors(self._cast, value) for value in drawn]
            vary(inputs, draw)
        return inputs

    def leaves(self, inputs: list[Any]) -> dict[str, torch.Tensor]:
        """The floating tensors among `inputs` whose gradients are checked, by name."""
        names = [
            self.argument_names[i] if i < len(self.argument_names) else f"input{i}"
            for i in range(len(inputs))
        ]
        return {
            path: tensor
            for name, value in zip(names, inputs, strict=True)
            if self.grad_inputs is None or name in self.grad_inputs
            for path, tensor in walk_tensors(value, name)
            if tensor.is_floating_point()
        }

    def _cast(self, tensor: torch.Tensor) -> torch.Tensor:
        dtype = self.dtype if tensor.is_floating_point() else tensor.dtype
        return tensor.detach().to(device=self.device, dtype=dtype)

    def guard(self, what: str, action: Callable[[], Any]) -> Any:
        """Run the file's own code; what it raises, but for want of memory, is a `ProblemError`."""
        try:
            return action()
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            kind = type(error).__name__
            raise ProblemError(
                f"{what} failed: {kind}: {error}", path=self.path, line=_line_in(error, self.path)
            ) from error


def _seed(seed: int) -> None:
    """Every generator that a problem file may draw from."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def sizes(source: str, path: str = "the problem file") -> tuple[str, ...]:
    """The size names that a problem file offers: `full`, and the keys of its `SIZES`.

    Raises `ProblemError` for `SIZES` that cannot be read.
    """
    return (FULL, *(name for name in _sizes(ast.parse(source), path) if name != FULL))


def _sizes(tree: ast.Module, path: str) -> dict[str, dict[str, Any]]:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and _assigned(node) == "SIZES":
            try:
                table = ast.literal_eval(node.value)  # type: ignore[arg-type]
                return {str(name): dict(constants) for name, constants in table.items()}
            except (ValueError, TypeError, AttributeError):
                raise ProblemError(
                    'SIZES must be literal, such as {"smoke": {"ROWS": 16}}',
                    path=path,
                    line=node.lineno,
                ) from None
    return {}


def _assigned(node: ast.Assign | ast.AnnAssign) -> str | None:
    """The name that gets a value: `NAME = ...` or `NAME: type = ...`."""
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    return target.id if isinstance(target, ast.Name) and node.value is not None else None


def _execute(source: str, path: str, size: str) -> dict[str, Any]:
    """The file's namespace with the constants of `size` in place of those as written.

    The assignments are replaced before the file runs, so constants derived from them follow.
    """
    try:
        tree = ast.parse(source, filename=path)
        overrides = {} if size == FULL else _sizes(tree, path)[size]
    except SyntaxError as error:
        raise ProblemError(error.msg, path=path, line=error.lineno) from error
    except KeyError:
        raise RequestError(
            f"{path} has no size {size!r}; it has {', '.join(sizes(source, path))}"
        ) from None
    replaced = set()
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            name = _assigned(node)
            if name in overrides:
                value = ast.parse(repr(overrides[name]), mode="eval").body
                node.value = ast.copy_location(value, node)
                replaced.add(name)
    if missing := set(overrides) - replaced:
        raise ProblemError(
            f"SIZES[{size!r}] sets {sorted(missing)}, which the file never assigns", path=path
        )
    module = types.ModuleType("problem_under_test")
    module.__file__ = path
    sys.modules[module.__name__] = module
    try:
        exec(compile(ast.fix_missing_locations(tree), path, "exec"), module.__dict__)
    except Exception as error:
        raise ProblemError(
            f"{type(error).__name__}: {error}", path=path, line=_line_in(error, path)
        ) from error
    module.__dict__.setdefault("get_init_inputs", list)
    return module.__dict__


def _line_in(error: BaseException, path: str) -> int | None:
    """The line of the innermost frame of `error` that lies in `path`."""
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def map_tensors(action: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """`value` with `action` applied to each tensor in nested tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        return action(value)
    if isinstance(value, tuple | list):
        items = [map_tensors(action, item) for item in value]
        return type(value)(items) if type(value) in (tuple, list) else tuple(items)
    if isinstance(value, dict):
        return {key: map_tensors(action, item) for key, item in value.items()}
    return value


def walk_tensors(value: Any, path: str) -> Iterator[tuple[str, torch.Tensor]]:
    """(path, tensor) of each tensor in `value`, such as `output[1]`."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, tuple | list):
        for i, item in enumerate(value):
            yield from walk_tensors(item, f"{path}[{i}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from walk_tensors(item, f"{path}[{key!r}]")


def grad_outputs(outputs: list[torch.Tensor], seed: int) -> list[torch.Tensor]:
    """Random dense gradients for `outputs`: normal, and for one element well off 0 and 1."""
    torch.manual_seed(seed)
    grads = []
    for output in outputs:
        grad = torch.randn(output.shape, dtype=torch.float32, device=output.device)
        if grad.numel() == 1:
            grad = torch.where(grad < 0, -1.0, 1.0) * (0.5 + torch.rand_like(grad))
        grads.append(grad.to(output.dtype))
    return grads


# --- variations: what may be done to drawn values ---------------------------------------------
# All scale by positive factors: signs, zeros and positivity (of a logarithm's argument, say)
# stay as the problem drew them.


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


VARIATIONS: dict[str, Callable[[torch.Tensor, torch.Generator], None]] = {
    "as_given": _as_given,
    "scaled": _scaled,
    "heavy_tailed": _heavy_tailed,
    "region": _region,
}


def vary(inputs: list[Any], draw: Draw) -> None:
    """Apply the variation of `draw`, in place, to each floating tensor of `inputs`."""
    change = VARIATIONS[draw.variation]
    for path, tensor in walk_tensors(inputs, ""):
        if tensor.is_floating_point() and tensor.numel() and tensor.is_contiguous():
            generator = torch.Generator(tensor.device)
            # The path keeps two tensors of one draw from being varied alike.
            generator.manual_seed(draw.seed ^ zlib.crc32(path.encode()))
            change(tensor, generator)


def _uniform(generator: torch.Generator) -> float:
    return float(torch.rand((), generator=generator, device=generator.device))


def _chunks(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    flat = tensor.view(-1)
    for i in range(math.ceil(flat.numel() / _CHUNK)):
        yield flat[i * _CHUNK : (i + 1) * _CHUNK]
