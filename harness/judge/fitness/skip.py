"""Runs a model with one of its operations skipped: is the operation needed at all?"""

from __future__ import annotations

from typing import Any

import torch

from harness.shared.dispatch import DispatchMode

#: Operations that move or make values; without them the result is the same by intent.
_MOVES = frozenset(
    {
        *("alias", "clone", "contiguous", "copy_", "detach", "lift_fresh", "_to_copy"),
        *("expand", "permute", "reshape", "select", "slice", "squeeze", "t", "transpose"),
        *("unsqueeze", "view", "_reshape_alias", "_unsafe_view", "fill_", "zero_", "bernoulli_"),
        *("empty_like", "full_like", "ones_like", "zeros_like", "rand_like", "randn_like"),
    }
)


class Skip(DispatchMode):
    """Lists the operations that could be skipped, and skips number `index`.

    One that is skipped gives its first argument of the right shape back; one in place leaves
    its first argument as it is.
    """

    def __init__(self, index: int | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.index = index
        self.operations: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = func._overloadpacket.__name__
        in_place = name.endswith("_") and name not in _MOVES and func._schema.is_mutable
        if in_place and not _counts(args[0]):
            self.operations.append(name)  # in place: skipped before it has changed anything
            if len(self.operations) - 1 == self.index:
                return args[0]
            return func(*args, **(kwargs or {}))
        out = func(*args, **(kwargs or {}))
        several = isinstance(out, tuple | list) and out
        first = out[0] if several else out
        stand_in = None if name in _MOVES else _like(first, args)
        if stand_in is None:
            return out
        self.operations.append(name)
        if len(self.operations) - 1 != self.index:
            return out
        return type(out)([stand_in, *out[1:]]) if several else stand_in


def _counts(target: torch.Tensor) -> bool:
    """Whether it is a counter of calls, which nobody compares (Rules.state)."""
    return target.ndim == 0 and not target.is_floating_point()


def _like(out: Any, args: tuple[Any, ...]) -> torch.Tensor | None:
    """The first argument of the shape and type of `out`, which is not `out` itself; as a tensor
    of its own, for a model that stores a parameter somewhere would have one more."""
    tensors = [value for value in args if isinstance(value, torch.Tensor) and value is not out]
    if not isinstance(out, torch.Tensor):
        return None
    alike = (t.detach() for t in tensors if t.shape == out.shape and t.dtype == out.dtype)
    return next(alike, None)
