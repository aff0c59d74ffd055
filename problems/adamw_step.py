"""One step of AdamW, in place: the 10th, as `torch.optim.AdamW` makes it.

    param *= 1 - LR * WEIGHT_DECAY
    exp_avg += (1 - BETA1) * (grad - exp_avg)
    exp_avg_sq = BETA2 * exp_avg_sq + (1 - BETA2) * grad^2
    param -= LR / c1 * exp_avg / (sqrt(exp_avg_sq) / sqrt(c2) + EPS),    ci = 1 - BETAi^STEP

The three tensors are changed in place by design, and returned. There is no backward.

Hard: bandwidth over seven streams, four read and three written; a solution must leave the inputs
as the reference does. Eager PyTorch makes eight passes. Float32 and bfloat16: EPS is 0 in float16.

Limit, at size `full` in float32 (a tensor is 512 MiB): 3.5 GiB.
"""

import torch
import torch.nn as nn

COUNT = 2**27

SIZES = {
    "smoke": {"COUNT": 131072},
    "odd": {"COUNT": 100003},
}

GRAD_INPUTS = ()  # nothing here is differentiated

LR, BETA1, BETA2, EPS, WEIGHT_DECAY, STEP = 1e-2, 0.9, 0.999, 1e-8, 0.1, 10


class Model(nn.Module):
    """A step of AdamW on flat tensors."""

    @torch.no_grad()
    def forward(
        self,
        param: torch.Tensor,
        grad: torch.Tensor,
        exp_avg: torch.Tensor,
        exp_avg_sq: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        param.mul_(1 - LR * WEIGHT_DECAY)
        exp_avg.lerp_(grad, 1 - BETA1)
        exp_avg_sq.mul_(BETA2).addcmul_(grad, grad, value=1 - BETA2)
        denominator = (exp_avg_sq.sqrt() / (1 - BETA2**STEP) ** 0.5).add_(EPS)
        param.addcdiv_(exp_avg, denominator, value=-LR / (1 - BETA1**STEP))
        return param, exp_avg, exp_avg_sq


def log_uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    """Random factors in [low, high), each order of magnitude as likely as any other."""
    return low * (high / low) ** torch.rand(shape)


def get_inputs() -> list[torch.Tensor]:
    """(param, grad, exp_avg, exp_avg_sq), each (COUNT,). The sizes of gradients range over nine
    orders of magnitude: for the smallest EPS shows."""
    size = log_uniform(1e-9, 1.0, COUNT)
    param = torch.randn(COUNT)
    grad = torch.randn(COUNT).mul_(size)
    exp_avg = torch.randn(COUNT).mul_(size).mul_(0.5)
    exp_avg_sq = torch.rand(COUNT).mul_(size).mul_(size).mul_(0.02)
    return [param, grad, exp_avg, exp_avg_sq]


def get_init_inputs() -> list[object]:
    """The model takes no arguments."""
    return []
