"""Cosine similarity of rows, and both gradients.

    output = sum(x1 * x2) / (max(||x1||, EPS) * max(||x2||, EPS))                shape (ROWS,)

Rows shorter than EPS are divided by EPS; what else their gradient is, PyTorch says.

Hard: three sums of a row in one read. Backward needs them again before it can write: keep 12
bytes a row, or read each row once and hold it while it is summed. Eager PyTorch normalises both
inputs into copies of 512 MiB and multiplies those.

Limit, at size `full` in float32 (an input is 512 MiB):
    forward    reads both inputs                                      1 GiB
    backward   reads both inputs, writes both gradients               2 GiB
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 65536
COLUMNS = 2048

SIZES = {
    "smoke": {"ROWS": 256, "COLUMNS": 256},
    "odd": {"ROWS": 509, "COLUMNS": 259},  # odd rows: vector loads meet tails and misalignment
}

EPS = 0.1  # so large that rows on either side of it have gradients of like size


class Model(nn.Module):
    """Cosine similarity along the last dimension."""

    def forward(self, x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
        return F.cosine_similarity(x1, x2, dim=-1, eps=EPS)


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(x1, x2), each (ROWS, COLUMNS): related rows, of lengths from 0.03 to 3: some under EPS."""
    x1, x2 = torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)
    x2 += x1 * (2 * torch.rand(ROWS, 1) - 1)
    for x in (x1, x2):
        x *= log_uniform(0.03, 3.0, ROWS, 1) / COLUMNS**0.5
    return [x1, x2]


def get_init_inputs() -> list[object]:
    """The model takes no arguments."""
    return []
