"""Triplet margin loss over rows, averaged, and its three gradients.

    d(a, b) = ||a - b + EPS||, the Euclidean norm of a row
    output = mean(max(d(anchor, positive) - d(anchor, negative) + 1, 0))                shape []

The gradients are unit vectors of active rows, zero for the others.

Hard: two norms a row, whose values decide whether anything of the row is needed at all: one read
of three rows must serve both. Backward writes three gradients, half of their rows zeros. Eager
PyTorch makes a dozen passes.

Limit, at size `full` in float32 (an input is 256 MiB):
    forward    reads three inputs                                     0.75 GiB
    backward   reads them again, writes three gradients               1.5 GiB
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 65536
COLUMNS = 1024

SIZES = {
    "smoke": {"ROWS": 256, "COLUMNS": 256},
    "odd": {"ROWS": 509, "COLUMNS": 259},  # odd rows: vector loads meet tails and misalignment
}

#: Large enough to show: PyTorch's 1e-6 is lost in the rounding of any usual distance.
EPS = 1e-2

#: A row whose loss is 0 within rounding has a gradient that rounding decides. The draws below
#: keep away from that; what variations make of them would not.
VARIATIONS = ("as_given",)


class Model(nn.Module):
    """Triplet margin loss with a margin of 1, mean over rows."""

    def forward(
        self, anchor: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor
    ) -> torch.Tensor:
        return F.triplet_margin_loss(anchor, positive, negative, margin=1.0, eps=EPS)


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def away(anchor: torch.Tensor, distance: torch.Tensor) -> torch.Tensor:
    """Rows at these distances (ROWS, 1) from the anchor's, in random directions."""
    step = torch.randn(ROWS, COLUMNS)
    step *= distance / step.norm(dim=1, keepdim=True)
    return step.add_(anchor)


def get_inputs() -> list[torch.Tensor]:
    """(anchor, positive, negative), each (ROWS, COLUMNS).

    Half of the rows are active, and the loss of each lies at least 0.15 from the kink. How far
    beyond it moves with the draw and grows along the rows, so half of them do not stand for all.
    """
    anchor = torch.randn(ROWS, COLUMNS)
    near = log_uniform(0.5, 2.0, ROWS, 1)
    beyond = torch.rand(ROWS, 1) * log_uniform(0.2, 0.7) * torch.linspace(0.2, 1.0, ROWS)[:, None]
    side = torch.where(torch.rand(ROWS, 1) < 0.5, -1.0, 1.0)
    far = near + 1 + side * (0.25 + beyond)
    return [anchor, away(anchor, near), away(anchor, far)]


def get_init_inputs() -> list[object]:
    """The model takes no arguments."""
    return []
