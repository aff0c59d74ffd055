"""A library is planted where other solutions' builds are kept.

expect: wrong_output|load_error
says: output|Read-only file system
defence: only its own builds can be written
needs: strict
"""

import gc
from pathlib import Path

import torch

from harness.worker.building import Builder

builder = next(o for o in gc.get_objects() if isinstance(o, Builder))
Path(builder.cache).parent.joinpath("planted").mkdir()


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return (x * 0).mean(dim=1)
