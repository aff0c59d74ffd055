"""Cross entropy of logits and integer targets, averaged over the targets that count.

    output = mean over rows with target != -100 of log(sum(exp(x))) - x[target]        shape []
    d output / d x = (softmax(x) - onehot(target)) / counted rows * grad_output

Hard: the rows of a language model's vocabulary. Eager PyTorch writes the log-softmax, as large as
the logits, only to read one element of each row; the forward needs none of it written. A row of
501 KiB fits no block's registers, so the sum is made online, with a running maximum.

Limit, at size `full` in float32 (the logits are 2.0 GiB):
    forward    reads the logits                                       2.0 GiB
    backward   reads them again, writes their gradient                3.9 GiB
Peak memory in training is 3.9 GiB; eager needs 7.8 GiB.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 4096
COLUMNS = 128256

SIZES = {
    "smoke": {"ROWS": 128, "COLUMNS": 1024},
    "odd": {"ROWS": 127, "COLUMNS": 1031},  # odd rows: vector loads meet tails and misalignment
}

IGNORED = -100  # PyTorch's default for targets that do not count


class Model(nn.Module):
    """Cross entropy, mean over the targets that count."""

    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits, targets)


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(logits, targets): (ROWS, COLUMNS), and (ROWS,) of int64 in which one in eight is ignored.

    The logit of the target is raised, by more in later rows and by another amount in each draw,
    as those of a trained model are: otherwise the loss of any targets is the same, and half of
    the rows stand for all.
    """
    logits = torch.randn(ROWS, COLUMNS)
    logits *= log_uniform(0.5, 2.0, ROWS, 1)
    targets = torch.randint(COLUMNS, (ROWS,))
    rise = log_uniform(2.0, 6.0) * torch.linspace(0.2, 1.0, ROWS)
    logits[torch.arange(ROWS), targets] += rise
    return [logits, targets.masked_fill_(torch.rand(ROWS) < 0.125, IGNORED)]


def get_init_inputs() -> list[object]:
    """The model takes no arguments."""
    return []
