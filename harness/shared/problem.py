"""A problem file -> the reference `Model`, and inputs drawn from a seed.

Judge and worker both use this, each in its own process: the same seed gives both the same
inputs, and neither ships them. What the worker draws is not trusted: a solution that bends
the draw only ends up with other inputs than those that its answer is judged by.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch.nn.parameter import is_lazy

from harness.errors import ProblemError
from harness.shared.constants import FULL, sizes
from harness.shared.draws import Draw, lay_out, vary
from harness.shared.mixing import mix_in
from harness.shared.problem_file import ProblemFile, seed_everything
from harness.shared.trees import apart, inexact, map_tensors, walk_tensors

__all__ = ["FULL", "Draw", "Instance", "sizes"]

_T = TypeVar("_T")


class Instance(ProblemFile):
    """A problem at one size, dtype and device.

    `model(seed)` and `inputs(draw)` are deterministic in their argument. Floating tensors are
    drawn in float32 and cast to `dtype`; integers and booleans keep their type.
    Raises `ProblemError` where the file fails.
    """

    def __init__(
        self, *, source: str, path: str, size: str, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__(source=source, path=path, size=size)
        self.dtype = dtype
        self.device = device
        self._made_on = self._drawn_on = device
        self._weights: set[str] = set()  # names, once a model was made
        # Of tensors that the file makes at its top, such as inputs once for all: these are handed
        # out as copies, or what one draw changes would be left in the next.
        held = [value for name, value in self._module.items() if not name.startswith("__")]
        self._kept = {_storage(tensor) for _, tensor in walk_tensors(held, "")} - {None}
        self._given: list[weakref.ref[torch.Tensor]] = []

    def construct(self, cls: type[torch.nn.Module] | Callable[..., Any], seed: int) -> Any:
        """`cls` of `get_init_inputs()` on the device, its random numbers drawn from `seed`.

        Made where the reference could be made: `model` has found that out.
        """
        seed_everything(seed)
        with torch.device(self._made_on):
            given = self.guard("get_init_inputs", lambda: self._module["get_init_inputs"]())
            given = map_tensors(lambda tensor: tensor.to(self.device), given)
            arguments, options = self.init_arguments(given)
            model = cls(*arguments, **options)
        if not isinstance(model, torch.nn.Module):
            return model
        # Not by `.to(dtype)`, which keeps the real part alone of complex weights.
        model = model.to(device=self.device)._apply(
            lambda tensor: tensor.to(self.dtype) if tensor.is_floating_point() else tensor
        )
        if any(is_lazy(tensor) for tensor in (*model.parameters(), *model.buffers())):
            with torch.no_grad():
                model(*self.drawn(seed))  # its first call gives them their shapes
        return model

    def model(self, seed: int) -> torch.nn.Module:
        """The reference with weights drawn from `seed`."""

        def make(where: torch.device) -> torch.nn.Module:
            self._made_on = where
            with _uninitialised_is_nan():
                model: torch.nn.Module = self.guard(
                    "Model", lambda: self.construct(self._module["Model"], seed)
                )
            return model

        model = self._where_it_can(self._made_on, make)
        self._weights = {name for name, _ in (*model.named_parameters(), *model.named_buffers())}
        return model

    def inputs(self, draw: Draw) -> list[Any]:
        """The forward arguments of `draw`, on the device, cast, varied. No grad is required."""
        with torch.no_grad():
            inputs = self.drawn(draw.seed)
            if draw.mix is not None:
                inputs = apart(inputs)  # as those of timed calls are
                mix_in(inputs, self.drawn(draw.mix.seed), draw.mix)
            vary(inputs, draw)
            return lay_out(inputs, draw)

    def drawn(self, seed: int) -> list[Any]:
        """The forward arguments as the file makes them from `seed`, on the device, cast."""

        def draw(where: torch.device) -> Any:
            self._drawn_on = where
            seed_everything(seed)
            with torch.device(where):
                return self.guard("get_inputs", lambda: self._module["get_inputs"]())

        if self.device.type == "meta":  # which is there to allocate nothing
            given = draw(self.device)
        else:
            given = self._where_it_can(self._drawn_on, draw)
        if not isinstance(given, list | tuple):
            kind = type(given).__name__
            raise ProblemError(f"get_inputs returns a {kind}, not a list", path=self.path)
        kept = self._kept
        self._require_new([t for _, t in walk_tensors(given, "") if _storage(t) not in kept])
        return [map_tensors(lambda tensor: self._cast(tensor, kept), value) for value in given]

    def _require_new(self, tensors: list[torch.Tensor]) -> None:
        """Raises `ProblemError` where one was handed out by the last draw: a file that remembers
        does not follow the seed, and what was varied stays so."""
        if any(tensor is last() for tensor in tensors for last in self._given):
            reason = (
                "get_inputs gives tensors of an earlier call again: make them anew in each call, "
                "or once for all at the top of the file"
            )
            raise ProblemError(reason, path=self.path)
        self._given = [weakref.ref(tensor) for tensor in tensors]

    def _where_it_can(self, where: torch.device, make: Callable[[torch.device], _T]) -> _T:
        """What `make` gives on the device, or on the CPU where the file's code works only there
        (a generator of the CPU, tensors from NumPy)."""
        try:
            return make(where)
        except ProblemError as error:
            if where.type != "cpu":
                with contextlib.suppress(ProblemError):
                    return make(torch.device("cpu"))
            raise error

    def input_names(self, inputs: list[Any]) -> list[str]:
        """What `inputs` are called: forward's arguments, then `input3`, `input4`, ...

        One that has the name of a weight is called `NAME (input)`.
        """
        names = self._arguments_for(inputs)
        return [f"{name} (input)" if name in self._weights else name for name in names]

    def _arguments_for(self, inputs: list[Any]) -> list[str]:
        extra = range(len(self.argument_names), len(inputs))
        return [*self.argument_names, *(f"input{i}" for i in extra)][: len(inputs)]

    def leaves(self, inputs: list[Any]) -> dict[str, torch.Tensor]:
        """The floating and complex tensors among `inputs` whose gradients are checked, by name."""
        arguments, names = self._arguments_for(inputs), self.input_names(inputs)
        return {
            path: tensor
            for argument, name, value in zip(arguments, names, inputs, strict=True)
            if self.grad_inputs is None or argument in self.grad_inputs
            for path, tensor in walk_tensors(value, name)
            if inexact(tensor)
        }

    def _cast(self, tensor: torch.Tensor, kept: set[int | None]) -> torch.Tensor:
        dtype = self.dtype if tensor.is_floating_point() else tensor.dtype
        cast = tensor.detach().to(device=self.device, dtype=dtype)
        return cast.clone() if kept and _storage(cast) in kept else cast


@contextlib.contextmanager
def _uninitialised_is_nan() -> Iterator[None]:
    """What `torch.empty` gives is NaN: else judge and worker would have other weights where a
    file does not initialise them."""
    mode = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("warn")
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(mode)


def _storage(tensor: torch.Tensor) -> int | None:
    """What tells storages apart; None for a tensor without one (sparse)."""
    return tensor.untyped_storage()._cdata if tensor.layout is torch.strided else None
