"""Kullback-Leibler divergence of predictions from targets, averaged over rows, and its gradient.

    output = sum(targets * (log(targets) - log(predictions))) / ROWS              shape []
    d output / d predictions = -targets / predictions / ROWS * grad_output     shape of predictions

A target of 0 adds 0, as in PyTorch (`xlogy`).

Hard: two logarithms an element pair. Accurate ones take as many instructions as an H100 can
issue in the time that its memory takes to deliver the pair; fast ones lose digits, and the sum
is a small difference of large terms. So the arithmetic has to be rearranged until the memory is
the limit again. Eager PyTorch makes five passes and keeps intermediates of 1 GiB.

Limit, at size `full` in float32 (an input is 1 GiB):
    forward    reads both inputs                                      2 GiB
    backward   reads both inputs, writes one gradient                 3 GiB
Nothing is carried over in caches: training moves 5 GiB, and its peak memory is 3 GiB.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 16384
COLUMNS = 16384

SIZES = {
    "smoke": {"ROWS": 512, "COLUMNS": 4096},  # 2 M elements: milliseconds on two CPU cores
    "odd": {"ROWS": 509, "COLUMNS": 1031},  # odd rows: vector loads meet tails and misalignment
    "huge": {"ROWS": 65537, "COLUMNS": 32771},  # over 2^31 elements: 32-bit indices overflow
}

GRAD_INPUTS = ("predictions",)


class Model(nn.Module):
    """`kl_div` with the mean over rows; its first argument is a logarithm by PyTorch's rule."""

    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.kl_div(torch.log(predictions), targets, reduction="batchmean")


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def distributions(logits: torch.Tensor, sharpness: torch.Tensor) -> torch.Tensor:
    """Softmax over rows. Rows and columns differ in sharpness, so no part stands for the whole.

    In place up to the softmax: at size `full` a copy costs 1 GiB.
    """
    logits *= sharpness
    logits *= log_uniform(0.5, 1.0, ROWS, 1)
    logits *= log_uniform(0.5, 1.0, 1, COLUMNS)
    return torch.softmax(logits, dim=-1)


def get_inputs() -> list[torch.Tensor]:
    """(predictions, targets), each (ROWS, COLUMNS); each row is a distribution.

    Each draw has its own sharpness on either side, so the output moves by tens of percent: it
    is about half the sum of the squared spreads of the logits. The two sides have differently
    shaped logits (normal, and exponential: a few classes hold much of the mass), because for
    two normal ones the divergence is the same with predictions and targets exchanged.

    Predictions are positive, in float16 too: with logits of a spread of 0.5 at most, 2^28 draws
    reach down to 0.04 / COLUMNS = 2.5e-6 at size `full`, and float16 holds down to 6e-8.
    """
    predictions = distributions(torch.randn(ROWS, COLUMNS), log_uniform(0.1, 0.5))
    logits = torch.empty(ROWS, COLUMNS).exponential_()
    targets = distributions(logits, log_uniform(0.2, 0.7))
    return [predictions, targets]


def get_init_inputs() -> list[object]:
    """The model takes no arguments."""
    return []
