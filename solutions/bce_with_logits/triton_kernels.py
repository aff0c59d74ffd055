"""Binary cross entropy with logits in Triton: one pass forward, one pass backward.

Float32, float16 and bfloat16, with float32 arithmetic and a float64 sum over tiles. Each program
takes one tile. Every run gives the same bits: a tile leaves its sum, and a second kernel adds the
sums up in a fixed order. Only the inputs are kept for backward. Inputs that are not contiguous
are right, but copied.

log(1 + e) for e = exp(-|x|) in (0, 1] needs no `log1p`: where e is small, what is lost of it is
small beside the loss, a mean of terms of order 1.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.autograd.function import once_differentiable

DEVICES = ("cuda",)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)

# Forward, 32 elements a thread: many loads under way, and few sums for the second kernel.
TILE, WARPS = 8192, 8
# Backward, one load of 16 bytes a thread and input: with nothing to add up, more gains nothing.
GRADIENT_WARPS = 4
FINISH = 4096  # sums that the second kernel takes at once


@triton.jit
def sum_of_losses(logits, targets, sums, count, TILE: tl.constexpr):
    """sums[tile] = the sum of max(x, 0) - x * targets + log(1 + exp(-|x|)) in the tile."""
    tile = tl.program_id(0).to(tl.int64)  # 64 bits: offsets beyond 2^31 elements
    index = tile * TILE + tl.arange(0, TILE)
    inside = index < count
    x = tl.load(logits + index, mask=inside, other=0.0, eviction_policy="evict_first")
    t = tl.load(targets + index, mask=inside, other=0.0, eviction_policy="evict_first")
    x, t = x.to(tl.float32), t.to(tl.float32)
    term = tl.where(x < 0, 0.0, x) - x * t + tl.log(1 + tl.exp(-tl.abs(x)))
    tl.store(sums + tile, tl.sum(tl.where(inside, term, 0.0)))


@triton.jit
def finish(sums, tiles, divisor, output, FINISH: tl.constexpr):
    """output = (the sum of the sums) / divisor. One program."""
    total = tl.zeros([FINISH], tl.float64)
    for first in range(0, tiles, FINISH):
        index = first + tl.arange(0, FINISH)
        total += tl.load(sums + index, mask=index < tiles, other=0.0).to(tl.float64)
    tl.store(output, (tl.sum(total) / divisor).to(tl.float32))


@triton.jit
def gradient_of_logits(grad_output, logits, targets, gradient, count, scale, TILE: tl.constexpr):
    """gradient = factor * (sigmoid(logits) - targets), where factor = scale * grad_output."""
    index = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    inside = index < count
    x = tl.load(logits + index, mask=inside, eviction_policy="evict_first").to(tl.float32)
    t = tl.load(targets + index, mask=inside, eviction_policy="evict_first").to(tl.float32)
    factor = scale * tl.load(grad_output).to(tl.float32)  # read here: the host need not wait
    result = factor * (tl.sigmoid(x) - t)
    tl.store(gradient + index, result, mask=inside, cache_modifier=".cs")


@triton.jit
def gradient_of_targets(grad_output, logits, targets, gradient, count, scale, TILE: tl.constexpr):
    """gradient = -factor * logits, where factor = scale * grad_output."""
    index = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    inside = index < count
    x = tl.load(logits + index, mask=inside, eviction_policy="evict_first").to(tl.float32)
    factor = scale * tl.load(grad_output).to(tl.float32)  # read here: the host need not wait
    result = -factor * x
    tl.store(gradient + index, result, mask=inside, cache_modifier=".cs")


def checked(logits: torch.Tensor, targets: torch.Tensor) -> None:
    """Raises `TypeError` or `ValueError` for what is not supported."""
    if logits.dtype not in DTYPES or targets.dtype != logits.dtype:
        raise TypeError(
            "bce_with_logits: logits and targets must both be float32, float16 or bfloat16, "
            f"got {logits.dtype} and {targets.dtype}"
        )
    if logits.shape != targets.shape or logits.device != targets.device:
        raise ValueError(
            "bce_with_logits: logits and targets must have the same shape and device, got "
            f"{list(logits.shape)} on {logits.device} and "
            f"{list(targets.shape)} on {targets.device}"
        )


def differentiated(kernel, grad_output, logits, targets, scale: float) -> torch.Tensor:
    """What `kernel` makes of each pair of elements, in a tensor like the inputs."""
    gradient = torch.empty_like(logits)
    count = logits.numel()
    tile = GRADIENT_WARPS * 32 * (16 // logits.element_size())
    kernel[(triton.cdiv(count, tile),)](
        grad_output, logits, targets, gradient, count, scale, TILE=tile, num_warps=GRADIENT_WARPS
    )
    return gradient


class BinaryCrossEntropy(torch.autograd.Function):
    """The mean of the binary cross entropy, with gradients for both inputs."""

    @staticmethod
    def forward(ctx, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        checked(logits, targets)
        logits, targets = logits.contiguous(), targets.contiguous()
        ctx.save_for_backward(logits, targets)
        count = logits.numel()
        tiles = triton.cdiv(count, TILE)
        sums = torch.empty(tiles, dtype=torch.float32, device=logits.device)
        output = torch.empty((), dtype=logits.dtype, device=logits.device)
        sum_of_losses[(tiles,)](logits, targets, sums, count, TILE=TILE, num_warps=WARPS)
        finish[(1,)](sums, tiles, count, output, FINISH=FINISH, num_warps=8)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: torch.Tensor):
        logits, targets = ctx.saved_tensors
        grad_logits = grad_targets = None
        scale = 1 / logits.numel()
        if ctx.needs_input_grad[0]:
            grad_logits = differentiated(gradient_of_logits, grad_output, logits, targets, scale)
        if ctx.needs_input_grad[1]:
            grad_targets = differentiated(gradient_of_targets, grad_output, logits, targets, scale)
        return grad_logits, grad_targets


class ModelNew(nn.Module):
    """Drop-in for the problem's Model."""

    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return BinaryCrossEntropy.apply(logits, targets)
