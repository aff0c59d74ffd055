"""Smooth L1 loss (beta 1, mean) between predictions and targets, and its gradient.

With d = predictions - targets, over N elements:

    output = mean(d^2 / 2 where |d| < 1, |d| - 1/2 elsewhere)                     shape []
    d output / d predictions = clamp(d, -1, 1) / N * grad_output               shape of predictions

Hard: bandwidth, as for `mse`, with a branch at |d| = 1 that neighbouring elements take
differently: it has to become arithmetic. 2^30 terms must be summed without losing digits.

Limit, at size `full` in float32 (an input is 4 GiB):
    forward    reads both inputs                                      8 GiB
    backward   reads both inputs, writes one gradient                12 GiB
Nothing is carried over in caches: training moves 20 GiB, and its peak memory is 12 GiB. The
reference and a solution side by side take twice that: `medium`, a quarter, fits a card of 24 GB.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 32768
COLUMNS = 32768

SIZES = {
    "medium": {"ROWS": 16384, "COLUMNS": 16384},  # a quarter: for cards of less than 28 GB
    "smoke": {"ROWS": 1024, "COLUMNS": 2048},  # 2 M elements: milliseconds on two CPU cores
    "odd": {"ROWS": 1021, "COLUMNS": 517},  # odd rows: vector loads meet tails and misalignment
    "huge": {"ROWS": 65537, "COLUMNS": 32771},  # over 2^31 elements: 32-bit indices overflow
}

GRAD_INPUTS = ("predictions",)


class Model(nn.Module):
    """The mean over all elements of the smooth L1 loss with beta = 1."""

    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.smooth_l1_loss(predictions, targets)


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(predictions, targets), each (ROWS, COLUMNS).

    The spread of the difference lies between 1 and 10, so that both branches are met in every
    draw at every size: inputs uniform in [0, 1) never meet the linear one. Either side of each
    draw has its own scale, and the predictions an offset, which move the output by tens of
    percent: otherwise the mean hardly differs from one draw to the next, and a constant would
    pass for a kernel, or the predictions alone for both. Each row and each column has its own
    scale, so that no part of the input stands for all of it. Drawn in place: at size `full` a
    copy costs 4 GiB.
    """
    predictions = torch.randn(ROWS, COLUMNS)
    predictions *= log_uniform(0.3, 3.0)
    predictions *= log_uniform(0.5, 2.0, ROWS, 1)
    predictions *= log_uniform(0.5, 2.0, 1, COLUMNS)
    predictions += 0.5 * torch.randn(())
    targets = torch.randn(ROWS, COLUMNS)
    targets *= log_uniform(1.0, 2.0)
    return [predictions, targets]


def get_init_inputs() -> list[object]:
    """The model takes no arguments."""
    return []
