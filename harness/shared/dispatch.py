"""The base of what watches operations while they are dispatched."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class DispatchMode(TorchDispatchMode):
    """A `TorchDispatchMode` for what is never compiled.

    torch wraps the method of such a mode so that Dynamo leaves it alone, and for that imports
    Dynamo, at the first operation: 1.5 s of processor time, as much as torch itself.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
