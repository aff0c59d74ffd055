"""Mean squared error between predictions and targets, and its gradient.

    output = mean((predictions - targets)^2)                                   shape []
    d output / d predictions = 2 (predictions - targets) / N * grad_output     shape of predictions

Hard: nothing but bandwidth. Two flops an element are free, so the score is how close one pass
over the inputs comes to the speed of the memory; and 2^30 terms must be summed without
losing digits. Eager PyTorch makes three passes and keeps two intermediates of 4 GiB.

Limit, at size `full` in float32 (an input is 4 GiB):
    forward    reads both inputs                                      8 GiB
    backward   reads both inputs, writes one gradient                12 GiB
Nothing is carried over in caches: training moves 20 GiB, and its peak memory is 12 GiB. Eager
takes 28 GiB, so the size `medium`, a quarter, is what fits a card of 24 GB.
"""

import torch
import torch.nn as nn

ROWS = 32768
COLUMNS = 32768

SIZES = {
    "medium": {"ROWS": 16384, "COLUMNS": 16384},  # a quarter: for cards of less than 64 GB
    "smoke": {"ROWS": 1024, "COLUMNS": 2048},  # 2 M elements: milliseconds on two CPU cores
    "odd": {"ROWS": 1021, "COLUMNS": 517},  # odd rows: vector loads meet tails and misalignment
    "huge": {"ROWS": 65537, "COLUMNS": 32771},  # over 2^31 elements: 32-bit indices overflow
}

GRAD_INPUTS = ("predictions",)


class Model(nn.Module):
    """The mean over all elements of the squared difference."""

    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return torch.mean((predictions - targets) ** 2)


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(predictions, targets), each (ROWS, COLUMNS).

    The mean of 2^30 equally distributed values hardly differs from one draw to the next, so a
    constant would pass for a kernel, half of the elements for all of them, and the predictions
    alone for both. Hence either side of each draw has its own scale, and the predictions an
    offset, which move the output by tens of percent; and each row and each column has its own
    scale. Drawn in place: at size `full` a copy costs 4 GiB.
    """
    predictions = torch.randn(ROWS, COLUMNS)
    predictions *= log_uniform(0.3, 3.0)
    predictions *= log_uniform(0.5, 2.0, ROWS, 1)
    predictions *= log_uniform(0.5, 2.0, 1, COLUMNS)
    predictions += torch.randn(())
    targets = torch.randn(ROWS, COLUMNS)
    targets *= log_uniform(0.5, 2.0)
    return [predictions, targets]


def get_init_inputs() -> list[object]:
    """The model takes no arguments."""
    return []
