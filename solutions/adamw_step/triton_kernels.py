"""A step of AdamW in Triton: one kernel, each tensor read once and written once, in place.

Float32 and bfloat16, with float32 arithmetic. Inputs that are not contiguous are refused: a copy
would not be changed in place.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

DEVICES = ("cuda",)
DTYPES = (torch.float32, torch.bfloat16)
WARPS = 4

LR, BETA1, BETA2, EPS, WEIGHT_DECAY, STEP = 1e-2, 0.9, 0.999, 1e-8, 0.1, 10


@triton.jit
def step(
    param, grad, exp_avg, exp_avg_sq, count,
    keep, beta1_left, beta2, beta2_left, correction, eps, size, TILE: tl.constexpr,
):  # fmt: skip
    """The formulas of the problem. `correction` = 1 / sqrt(1 - BETA2^STEP), `size` the step's."""
    index = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)  # beyond 2^31 elements
    inside = index < count
    p = tl.load(param + index, mask=inside, other=0.0).to(tl.float32)
    g = tl.load(grad + index, mask=inside, other=0.0).to(tl.float32)
    m = tl.load(exp_avg + index, mask=inside, other=0.0).to(tl.float32)
    v = tl.load(exp_avg_sq + index, mask=inside, other=1.0).to(tl.float32)
    m += beta1_left * (g - m)
    v = beta2 * v + beta2_left * g * g
    p = keep * p - size * m / (tl.sqrt(v) * correction + eps)
    tl.store(param + index, p, mask=inside)
    tl.store(exp_avg + index, m, mask=inside)
    tl.store(exp_avg_sq + index, v, mask=inside)


class ModelNew(nn.Module):
    """Drop-in for the problem's Model."""

    @torch.no_grad()
    def forward(
        self,
        param: torch.Tensor,
        grad: torch.Tensor,
        exp_avg: torch.Tensor,
        exp_avg_sq: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        tensors = (param, grad, exp_avg, exp_avg_sq)
        if len({t.dtype for t in tensors}) > 1 or param.dtype not in DTYPES:
            raise TypeError(
                f"adamw_step: float32 and bfloat16 are supported, got {[t.dtype for t in tensors]}"
            )
        if not all(t.is_contiguous() and t.shape == param.shape for t in tensors):
            raise ValueError("adamw_step: tensors must be contiguous and of one shape")
        count, tile = param.numel(), WARPS * 32 * (16 // param.element_size())
        step[(triton.cdiv(count, tile),)](
            *tensors,
            count,
            1 - LR * WEIGHT_DECAY,
            1 - BETA1,
            BETA2,
            1 - BETA2,
            (1 - BETA2**STEP) ** -0.5,
            EPS,
            LR / (1 - BETA1**STEP),
            TILE=tile,
            num_warps=WARPS,
        )
        return param, exp_avg, exp_avg_sq
