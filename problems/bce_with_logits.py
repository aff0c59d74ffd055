"""Binary cross entropy of logits and soft targets, averaged, and its gradient.

    output = mean(max(x, 0) - x * targets + log(1 + exp(-|x|)))                        shape []
    d output / d x = (sigmoid(x) - targets) / N * grad_output

Hard: an exponential and a logarithm for each pair, which must neither overflow for large |x| nor
lose digits near 0 (`log1p`), in the time that the memory takes for 8 bytes. Eager PyTorch runs
six kernels over intermediates of 1 GiB.

Limit, at size `full` in float32 (an input is 1 GiB):
    forward    reads both inputs                                      2 GiB
    backward   reads both inputs, writes one gradient                 3 GiB
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 16384
COLUMNS = 16384

SIZES = {
    "smoke": {"ROWS": 256, "COLUMNS": 512},
    "odd": {"ROWS": 509, "COLUMNS": 517},  # odd rows: vector loads meet tails and misalignment
    "huge": {"ROWS": 65537, "COLUMNS": 32771},  # over 2^31 elements: 32-bit indices overflow
}

GRAD_INPUTS = ("logits",)


class Model(nn.Module):
    """Binary cross entropy with logits, mean over all elements."""

    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.binary_cross_entropy_with_logits(logits, targets)


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(logits, targets), each (ROWS, COLUMNS); targets lie in [0, 1).

    Logits lean towards their target, by an amount of each draw and more so in later rows: if
    they did not, any targets would give the same loss, and half of the rows that of all.
    """
    targets = torch.rand(ROWS, COLUMNS)
    logits = torch.randn(ROWS, COLUMNS)
    logits *= log_uniform(0.5, 4.0)
    logits += (targets - 0.5) * (log_uniform(1.0, 6.0) * torch.linspace(0.2, 1.0, ROWS)[:, None])
    return [logits, targets]


def get_init_inputs() -> list[object]:
    """The model takes no arguments."""
    return []
