"""SwiGLU in Triton: one pass each way; both halves' gradients go into one tensor.

Float32, float16 and bfloat16, with float32 arithmetic. Only the input is kept for backward. Inputs
that are not contiguous are right, but copied.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.autograd.function import once_differentiable

DEVICES = ("cuda",)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
WARPS = 4


@triton.jit
def swiglu(x, output, columns, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)  # 64 bits: offsets beyond 2^31 elements
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inside = column < columns
    first = x + row * 2 * columns + column
    gate = tl.load(first, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(first + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(output + row * columns + column, gate * tl.sigmoid(gate) * up, mask=inside)


@triton.jit
def swiglu_gradient(grad_output, x, gradient, columns, TILE: tl.constexpr):
    """With s = sigmoid(gate): g * up * s * (1 + gate * (1 - s)), and g * gate * s."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inside = column < columns
    first = row * 2 * columns + column
    gate = tl.load(x + first, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(x + first + columns, mask=inside, other=0.0).to(tl.float32)
    g = tl.load(grad_output + row * columns + column, mask=inside, other=0.0).to(tl.float32)
    s = tl.sigmoid(gate)
    tl.store(gradient + first, g * up * s * (1 + gate * (1 - s)), mask=inside)
    tl.store(gradient + first + columns, g * gate * s, mask=inside)


def launch(kernel, *tensors: torch.Tensor, columns: int) -> None:
    """One program for a tile of a row of the output: one load of 16 bytes a thread and tensor."""
    tile = WARPS * 32 * (16 // tensors[0].element_size())
    rows = tensors[-1].numel() // tensors[-1].shape[-1]
    kernel[(rows, triton.cdiv(columns, tile))](*tensors, columns, TILE=tile, num_warps=WARPS)


def checked(x: torch.Tensor) -> torch.Tensor:
    """`x`, contiguous. Raises `TypeError` for a dtype that is not supported."""
    if x.dtype not in DTYPES:
        raise TypeError(f"swiglu: float32, float16 and bfloat16 are supported, got {x.dtype}")
    return x.contiguous()


class SwiGLU(torch.autograd.Function):
    """silu(gate) * up, for gate and up the halves of x along the last dimension."""

    @staticmethod
    def forward(ctx, x: torch.Tensor) -> torch.Tensor:
        x = checked(x)
        if x.shape[-1] % 2:
            raise ValueError(f"swiglu: a row must have two halves, got {x.shape[-1]} elements")
        columns = x.shape[-1] // 2
        output = torch.empty(*x.shape[:-1], columns, dtype=x.dtype, device=x.device)
        launch(swiglu, x, output, columns=columns)
        ctx.save_for_backward(x)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        gradient = torch.empty_like(x)
        launch(swiglu_gradient, grad_output.contiguous(), x, gradient, columns=x.shape[-1] // 2)
        return gradient


class ModelNew(nn.Module):
    """Drop-in for the problem's Model."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return SwiGLU.apply(x)
