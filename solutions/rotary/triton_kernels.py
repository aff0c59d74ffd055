"""Rotary position embedding in Triton: one pass each way, in pairs half a row apart.

A program takes one position of one sequence, with all of its heads: cosines and sines are loaded
once for them. Backward is the same kernel with the angles the other way round, and keeps nothing
but the tables. Float32, float16 and bfloat16, with float32 arithmetic. Inputs that are not
contiguous are right, but copied.
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
def turn(
    u, cos, sin, output, length, heads, half,
    BACK: tl.constexpr, HEADS: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    """Each pair (a, b), half a row apart, by its angles; BACK: by the transposed matrix."""
    token = tl.program_id(0).to(tl.int64)  # 64 bits: offsets beyond 2^31 elements
    column = tl.arange(0, HALF)
    table = (token % length) * 2 * half + column
    cos_a = tl.load(cos + table, mask=column < half, other=0.0).to(tl.float32)
    cos_b = tl.load(cos + table + half, mask=column < half, other=0.0).to(tl.float32)
    sin_a = tl.load(sin + table, mask=column < half, other=0.0).to(tl.float32)
    sin_b = tl.load(sin + table + half, mask=column < half, other=0.0).to(tl.float32)
    head = tl.arange(0, HEADS)[:, None]
    inside = (head < heads) & (column < half)[None, :]
    at = (token * heads + head) * 2 * half + column[None, :]
    a = tl.load(u + at, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(u + at + half, mask=inside, other=0.0).to(tl.float32)
    if BACK:
        turned_a = a * cos_a + b * sin_b
        turned_b = b * cos_b - a * sin_a
    else:
        turned_a = a * cos_a - b * sin_a
        turned_b = b * cos_b + a * sin_b
    tl.store(output + at, turned_a, mask=inside)
    tl.store(output + at + half, turned_b, mask=inside)


def turned(u: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, back: bool) -> torch.Tensor:
    """u (batch, length, heads, depth) by the angles of cos and sin (length, depth)."""
    u = u.contiguous()
    batch, length, heads, depth = u.shape
    output = torch.empty_like(u)
    turn[(batch * length,)](
        u,
        cos,
        sin,
        output,
        length,
        heads,
        depth // 2,
        BACK=back,
        HEADS=triton.next_power_of_2(heads),
        HALF=triton.next_power_of_2(depth // 2),
        num_warps=WARPS,
    )
    return output


class Rotary(torch.autograd.Function):
    """Query and key turned; gradients for both, none for the tables."""

    @staticmethod
    def forward(ctx, query, key, cos, sin):
        if len({t.dtype for t in (query, key, cos, sin)}) > 1 or query.dtype not in DTYPES:
            raise TypeError(
                "rotary: query, key, cos and sin must all be float32, float16 or bfloat16, "
                f"got {query.dtype}, {key.dtype}, {cos.dtype}, {sin.dtype}"
            )
        if query.shape[1] != cos.shape[0] or query.shape[3] % 2:
            raise ValueError(
                "rotary: (batch, length, heads, depth) of even depth and tables (length, depth) "
                f"are asked for, got {list(query.shape)} and {list(cos.shape)}"
            )
        cos, sin = cos.contiguous(), sin.contiguous()
        ctx.save_for_backward(cos, sin)
        return turned(query, cos, sin, back=False), turned(key, cos, sin, back=False)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_query, grad_key):
        cos, sin = ctx.saved_tensors
        return (
            turned(grad_query, cos, sin, back=True),
            turned(grad_key, cos, sin, back=True),
            None,
            None,
        )


class ModelNew(nn.Module):
    """Drop-in for the problem's Model."""

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return Rotary.apply(query, key, cos, sin)
