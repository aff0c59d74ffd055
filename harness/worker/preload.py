"""Imports what `worker.__main__` does, without touching CUDA: for a process that is to fork."""

from __future__ import annotations

import torch

_asked = torch.cuda.is_available
torch.cuda.is_available = lambda: False  # torch.utils.cpp_extension asks when it is imported
try:
    from harness.worker import building, faults, session
finally:
    torch.cuda.is_available = _asked

__all__ = ["building", "faults", "session"]
