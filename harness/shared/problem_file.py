"""A problem file, executed: what it defines and declares, and what its own code raises."""

from __future__ import annotations

import inspect
import random
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from harness.errors import ProblemError
from harness.shared import constants
from harness.shared.draws import VARIATIONS


class ProblemFile:
    """A problem file with the constants of one size. Raises `ProblemError` where it lacks what it
    must define, or names what there is not.

    `grad_inputs`: the file's own `GRAD_INPUTS`; None: all. `variations`: its own `VARIATIONS`,
    those that its inputs allow; without them, all.
    """

    def __init__(self, *, source: str, path: str, size: str) -> None:
        self.path = path
        self.size = size
        self._source = source
        self._module = _execute(source, path, size)
        for name in ("Model", "get_inputs"):
            if not callable(self._module.get(name)):
                raise ProblemError(f"the problem file defines no {name}", path=path)
        model = self._module["Model"]
        if not isinstance(model, type) or not issubclass(model, torch.nn.Module):
            raise ProblemError("Model is not a class of torch.nn.Module", path=path)
        arguments = [
            parameter
            for parameter in inspect.signature(model.forward).parameters.values()
            if parameter.kind not in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD)
        ][1:]  # inputs are handed over in order, so what goes by keyword only never is one
        self.argument_names = [argument.name for argument in arguments]
        self.required_arguments = sum(
            one.default is one.empty and one.kind is not one.VAR_POSITIONAL for one in arguments
        )
        self.grad_inputs = self._named("GRAD_INPUTS", self.argument_names, "forward takes")
        named = self._named("VARIATIONS", VARIATIONS, "there are")
        self.variations = tuple(VARIATIONS) if named is None else named

    def _named(self, constant: str, known: Iterable[str], there: str) -> tuple[str, ...] | None:
        """The names that a constant of the file lists, all of them `known`; None without it."""
        named = self._module.get(constant)
        if named is None:
            return None
        if not isinstance(named, list | tuple) or not all(isinstance(name, str) for name in named):
            example = f'("{next(iter(known), "x")}",)'
            raise ProblemError(f"{constant} must be names, such as {example}", path=self.path)
        if unknown := sorted(set(named) - set(known)):
            text = f"{constant} names {', '.join(unknown)}; {there} {', '.join(known)}"
            raise ProblemError(text, path=self.path)
        return tuple(named)

    @property
    def leading(self) -> dict[str, int]:
        """The whole numbers that `get_inputs` reads, the leading dimension first."""
        return constants.leading(self._source, self._module)

    @property
    def tolerances(self) -> dict[torch.dtype, tuple[float, float]]:
        """The file's own `TOLERANCES`: dtype -> (rtol, atol). Raises `ProblemError`."""
        try:
            return {
                getattr(torch, str(dtype).removeprefix("torch.")): (float(rtol), float(atol))
                for dtype, (rtol, atol) in self._module.get("TOLERANCES", {}).items()
            }
        except (TypeError, ValueError, AttributeError):
            text = 'TOLERANCES must be such as {"float32": (1e-4, 1e-6)}: rtol and atol by dtype'
            raise ProblemError(text, path=self.path) from None

    def init_arguments(self, given: Any) -> tuple[list[Any], dict[str, Any]]:
        """What `get_init_inputs` returned, as positional and keyword arguments.

        `[[...], {...}]` is both at once where the names are those of Model's arguments, or where
        Model does not take a list and a dict.
        """
        if isinstance(given, dict):
            return [], given
        if not isinstance(given, list | tuple):
            kind = type(given).__name__
            raise ProblemError(f"get_init_inputs returns a {kind}, not a list", path=self.path)
        if [type(item) for item in given] == [list, dict]:
            named = bool(given[1]) and self._takes(*given[0], **given[1])
            if named or not self._takes(*given):
                return given[0], given[1]
        return list(given), {}

    def _takes(self, *arguments: Any, **options: Any) -> bool:
        try:
            inspect.signature(self._module["Model"]).bind(*arguments, **options)
        except TypeError:
            return False
        return True

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


def seed_everything(seed: int) -> None:
    """Every generator that a problem file may draw from."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def _execute(source: str, path: str, size: str) -> dict[str, Any]:
    """The file's namespace, with the constants of `size`. What it draws at its top is the same in
    each process."""
    tree = constants.at_size(source, path, size)
    seed_everything(0)
    module = types.ModuleType("problem_under_test")
    module.__file__ = path
    sys.modules[module.__name__] = module
    try:
        exec(compile(tree, path, "exec"), module.__dict__)
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
