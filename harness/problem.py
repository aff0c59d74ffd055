"""A problem file -> the reference `Model`, and inputs drawn from a seed.

Judge and worker both use this, each in its own process: the same seed gives both the same
inputs, and neither ships them. What the worker draws is not trusted: a solution that bends
the draw only ends up with other inputs than those that its answer is judged by.
"""

from __future__ import annotations

import ast
import inspect
import random
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from harness.draws import VARIATIONS, Draw, lay_out, vary
from harness.errors import ProblemError, RequestError
from harness.mixing import mix_in
from harness.trees import map_tensors, walk_tensors

__all__ = ["FULL", "Draw", "Instance", "sizes"]

FULL = "full"  # the size of the constants as written


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
        self.size = size
        self.dtype = dtype
        self.device = device
        self._module = _execute(source, path, size)
        for name in ("Model", "get_inputs"):
            if not callable(self._module.get(name)):
                raise ProblemError(f"the problem file defines no {name}", path=path)
        arguments = [
            parameter
            for parameter in inspect.signature(self._module["Model"].forward).parameters.values()
            if parameter.kind not in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD)
        ][1:]  # inputs are handed over in order, so what goes by keyword only never is one
        self.argument_names = [argument.name for argument in arguments]
        self.required_arguments = sum(
            one.default is one.empty and one.kind is not one.VAR_POSITIONAL for one in arguments
        )
        self.grad_inputs: tuple[str, ...] | None = self._module.get("GRAD_INPUTS")
        unknown = set(self.grad_inputs or ()) - set(self.argument_names)
        if unknown:
            raise ProblemError(
                f"GRAD_INPUTS names {sorted(unknown)}, forward takes {self.argument_names}",
                path=path,
            )
        if unknown := set(self.variations) - set(VARIATIONS):
            raise ProblemError(
                f"VARIATIONS names {sorted(unknown)}; there are {', '.join(VARIATIONS)}", path=path
            )

    @property
    def variations(self) -> tuple[str, ...]:
        """The file's own `VARIATIONS`: those that its inputs allow; without them, all."""
        return tuple(self._module.get("VARIATIONS", VARIATIONS))

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
        with torch.no_grad():
            inputs = self._drawn(draw.seed)
            if draw.mix is not None:
                mix_in(inputs, self._drawn(draw.mix.seed), draw.mix)
            vary(inputs, draw)
            return lay_out(inputs, draw)

    def _drawn(self, seed: int) -> list[Any]:
        _seed(seed)
        with torch.device(self.device):
            drawn = self.guard("get_inputs", lambda: list(self._module["get_inputs"]()))
        return [map_tensors(self._cast, value) for value in drawn]

    def input_names(self, inputs: list[Any]) -> list[str]:
        """What `inputs` are called: forward's arguments, then `input3`, `input4`, ..."""
        extra = range(len(self.argument_names), len(inputs))
        return [*self.argument_names, *(f"input{i}" for i in extra)][: len(inputs)]

    def leaves(self, inputs: list[Any]) -> dict[str, torch.Tensor]:
        """The floating tensors among `inputs` whose gradients are checked, by name."""
        return {
            path: tensor
            for name, value in zip(self.input_names(inputs), inputs, strict=True)
            if self.grad_inputs is None or name in self.grad_inputs
            for path, tensor in walk_tensors(value, name)
            if tensor.is_floating_point()
        }

    def _cast(self, tensor: torch.Tensor) -> torch.Tensor:
        dtype = self.dtype if tensor.is_floating_point() else tensor.dtype
        return tensor.detach().to(device=self.device, dtype=dtype)

    def guard(
        self, what: str, action: Callable[[], Any], *, passing: tuple[type[Exception], ...] = ()
    ) -> Any:
        """Run the file's own code; what it raises, but for want of memory and what is `passing`,
        is a `ProblemError`."""
        try:
            return action()
        except Exception as error:
            if isinstance(error, (torch.OutOfMemoryError, ProblemError, *passing)):
                raise
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
