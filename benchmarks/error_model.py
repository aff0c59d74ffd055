"""How far honest code and precision downgrades err, as multiples of eager PyTorch's error.

    python -m benchmarks.error_model --device cpu --dtype float32 --draws 5

Every operation runs as eager PyTorch, as float64 oracle, as *honest* variants (another summation
order, split K, Winograd, online softmax) and as *downgrades* (inputs or result rounded, all of
it in a narrower type). `judge.checking.compare` itself measures them, so its thresholds can be
read off the tables; docs/error_model.md holds them.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from harness.judge.checking import compare as judge

Sum = Callable[[Tensor], Tensor]  # over the last dimension
Compute = Callable[..., Tensor]
INPUTS = ("normal", "uniform", "shifted", "wide", "heavy")


def draw(shape: tuple[int, ...], kind: str, source: torch.Generator) -> Tensor:
    """float32 values: N(0,1); U(0,1); N(5,1); +-e^(3 N(0,1)); Student's t of 2 degrees."""
    normal = torch.randn(shape, generator=source)
    if kind == "uniform":
        return torch.rand(shape, generator=source)
    if kind == "shifted":
        return normal + 5
    if kind == "wide":
        return normal.sign() * torch.exp(3 * torch.randn(shape, generator=source))
    if kind == "heavy":
        square = torch.randn((2, *shape), generator=source).square().mean(0)
        return normal / square.sqrt().clamp(min=1e-4)
    return normal


# --- sums over the last dimension, all with float32 (or narrower) accumulators


def reversed_(x: Tensor) -> Tensor:
    return x.flip(-1).sum(-1)


def pairwise(x: Tensor) -> Tensor:
    while (n := x.shape[-1]) > 1:
        x, odd = x[..., : n - n % 2].unflatten(-1, (2, -1)).sum(-2), x[..., n - n % 2 :]
        x = torch.cat((x, odd), -1)
    return x[..., 0]


def threads(x: Tensor) -> Tensor:
    """256 strided accumulators, each sequential, then their sum: the usual block reduction."""
    if x.shape[-1] < 512:
        return sequential(x)
    whole = x.shape[-1] // 256 * 256
    parts: Tensor = x[..., :whole].unflatten(-1, (-1, 256))
    total = parts[..., 0, :]
    for i in range(1, parts.shape[-2]):
        total = total + parts[..., i, :]
    return total.sum(-1) + x[..., whole:].sum(-1)


def sequential(x: Tensor) -> Tensor:
    """One accumulator from first to last; past 2^14 no kernel is so slow, so 64 of them."""
    if x.shape[-1] > 1 << 14:
        return sequential(x.unflatten(-1, (64, -1))).sum(-1)
    with np.errstate(all="ignore"):
        sums = np.add.accumulate(x.cpu().float().numpy(), axis=-1, dtype=np.float32)[..., -1]
    return torch.from_numpy(np.asarray(sums)).to(x)


def atomics(x: Tensor) -> Tensor:
    """Blocks of 256 summed each, then added one by one in random order, as by atomicAdd."""
    whole = x.shape[-1] // 256 * 256
    if not whole:
        return sequential(x)
    parts = x[..., :whole].unflatten(-1, (-1, 256)).sum(-1)
    order = torch.randperm(parts.shape[-1], device=x.device)
    return sequential(parts[..., order]) + x[..., whole:].sum(-1)


def compensated(x: Tensor) -> Tensor:
    """What Kahan's sum gives: exact but for the last rounding."""
    return x.double().sum(-1).to(x.dtype)


SUMS: dict[str, Sum] = {
    "reversed": reversed_,
    "pairwise": pairwise,
    "threads": threads,
    "sequential": sequential,
    "atomics": atomics,
    "Kahan": compensated,
}


def over_sums(compute: Compute) -> dict[str, Compute]:
    """`compute(*inputs, total=)` under every summation order."""
    return {name: partial(compute, total=total) for name, total in SUMS.items()}


# --- operations: inputs' shapes, eager reference, honest variants


@dataclass(frozen=True, kw_only=True)
class Operation:
    shapes: tuple[tuple[int, ...], ...]
    reference: Compute
    variants: dict[str, Compute]
    prepare: tuple[Callable[[Tensor], Tensor], ...] = field(default=())


def gradient(reference: Compute) -> Compute:
    """Of the first input; the last input is the gradient of the output."""

    def compute(*inputs: Tensor) -> Tensor:
        with torch.enable_grad():
            leaf = inputs[0].detach().requires_grad_()
            (grad,) = torch.autograd.grad(reference(leaf, *inputs[1:-1]), leaf, inputs[-1])
        return grad

    return compute


def mean(x: Tensor, total: Sum) -> Tensor:
    return total(x) / x.shape[-1]


def kl(log_p: Tensor, q: Tensor) -> Tensor:
    return F.kl_div(log_p, q, reduction="batchmean")


def kl_manual(log_p: Tensor, q: Tensor, total: Sum) -> Tensor:
    return total((torch.xlogy(q, q) - q * log_p).flatten()) / len(q)


def kl_log2(log_p: Tensor, q: Tensor) -> Tensor:
    return (q * (q.clamp(min=1e-38).log2() * math.log(2) - log_p)).sum() / len(q)


def smooth(p: Tensor, t: Tensor, total: Sum) -> Tensor:
    d = (p - t).abs()
    return mean(torch.where(d < 1, 0.5 * d * d, d - 0.5), total)


def softmax(x: Tensor, total: Sum) -> Tensor:
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / total(e)[..., None]


def softmax_exp2(x: Tensor) -> Tensor:
    scaled = x * 1.4426950408889634
    e = torch.exp2(scaled - scaled.amax(-1, keepdim=True))
    return e * e.sum(-1, keepdim=True).reciprocal()


def softmax_online(x: Tensor, values: Tensor | None = None, block: int = 64) -> Tensor:
    """Blocks with a running maximum and sum; with `values` (n, d) the flash attention product."""
    top = x.new_full((*x.shape[:-1], 1), -torch.inf)
    total, out = torch.zeros_like(top), torch.zeros_like(top)
    for i in range(0, x.shape[-1], block):
        part = x[..., i : i + block]
        new = torch.maximum(top, part.amax(-1, keepdim=True))
        e, shrink = (part - new).exp(), (top - new).exp()
        total, top = total * shrink + e.sum(-1, keepdim=True), new
        out = out * shrink + e @ values[..., i : i + block, :] if values is not None else out
    return out / total if values is not None else (x - top).exp() / total


def softmax_grad(x: Tensor, g: Tensor, total: Sum) -> Tensor:
    p = softmax(x, total)
    return p * (g - total(p * g)[..., None])


def norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:])


def norm_two_pass(x: Tensor, total: Sum) -> Tensor:
    d = x - mean(x, total)[..., None]
    return d * (mean(d * d, total)[..., None] + 1e-5).rsqrt()


def norm_one_pass(x: Tensor) -> Tensor:
    m, square = x.mean(-1, keepdim=True), (x * x).mean(-1, keepdim=True)
    return (x - m) * (square - m * m + 1e-5).rsqrt()


def norm_grad(x: Tensor, g: Tensor, total: Sum) -> Tensor:
    d = x - mean(x, total)[..., None]
    scale = (mean(d * d, total)[..., None] + 1e-5).rsqrt()
    y = d * scale
    return scale * (g - mean(g, total)[..., None] - y * mean(g * y, total)[..., None])


def matmul_split(a: Tensor, b: Tensor, parts: int) -> Tensor:
    """Split K: products of `parts` slices, added one by one."""
    out = torch.zeros_like(a[:, :1] @ b[:1])
    for left, right in zip(a.chunk(parts, 1), b.chunk(parts, 0), strict=True):
        out = out + left @ right
    return out


def matmul_3xtf32(a: Tensor, b: Tensor) -> Tensor:
    """float32 from three TF32 products, as CUTLASS's fast-accurate mode."""
    high_a, high_b = tf32(a), tf32(b)
    return tf32(a - high_a) @ high_b + high_a @ tf32(b - high_b) + high_a @ high_b


def matmul_strassen(a: Tensor, b: Tensor) -> Tensor:
    """One level of Strassen's seven products."""
    (p, q), (r, s) = (h.chunk(2, 1) for h in a.chunk(2, 0))
    (t, u), (v, w) = (h.chunk(2, 1) for h in b.chunk(2, 0))
    m1, m2, m3, m4 = (p + s) @ (t + w), (r + s) @ t, p @ (u - w), s @ (v - t)
    m5, m6, m7 = (p + q) @ w, (r - p) @ (t + u), (q - s) @ (v + w)
    top = torch.cat((m1 + m4 - m5 + m7, m3 + m5), 1)
    return torch.cat((top, torch.cat((m2 + m4, m1 - m2 + m3 + m6), 1)))


def conv(x: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(x, w, padding=1)


def conv_unfold(x: Tensor, w: Tensor, parts: int) -> Tensor:
    columns = F.unfold(x, 3, padding=1).transpose(0, 1).flatten(1)
    out = matmul_split(w.flatten(1), columns, parts)
    return out.view(len(w), len(x), *x.shape[2:]).transpose(0, 1)


#: Winograd F(m x m, 3 x 3): input, kernel and output transforms (Lavin & Gray, 2016).
WINOGRAD: dict[int, tuple[list[list[float]], list[list[float]], list[list[float]]]] = {
    2: (
        [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]],
        [[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]],
        [[1, 1, 1, 0], [0, 1, -1, -1]],
    ),
    4: (
        [
            [4, 0, -5, 0, 1, 0],
            [0, -4, -4, 1, 1, 0],
            [0, 4, -4, -1, 1, 0],
            [0, -2, -1, 2, 1, 0],
            [0, 2, -1, -2, 1, 0],
            [0, 4, 0, -5, 0, 1],
        ],
        [
            [1 / 4, 0, 0],
            [-1 / 6, -1 / 6, -1 / 6],
            [-1 / 6, 1 / 6, -1 / 6],
            [1 / 24, 1 / 12, 1 / 6],
            [1 / 24, -1 / 12, 1 / 6],
            [0, 0, 1],
        ],
        [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]],
    ),
}


def conv_winograd(x: Tensor, w: Tensor, m: int) -> Tensor:
    inner, kernel, outer = (x.new_tensor(t) for t in WINOGRAD[m])
    tiles = F.pad(x, (1, 1, 1, 1)).unfold(2, m + 2, m).unfold(3, m + 2, m)
    product = torch.einsum("nchwij,kcij->nkhwij", inner @ tiles @ inner.T, kernel @ w @ kernel.T)
    return (
        (outer @ product @ outer.T).permute(0, 1, 2, 4, 3, 5).reshape(len(x), len(w), *x.shape[2:])
    )


def gelu_erf(x: Tensor) -> Tensor:
    """erf by formula 7.1.26 of Abramowitz and Stegun, |error| <= 1.5e-7: a common shortcut."""
    z = x.abs() * math.sqrt(0.5)
    t = 1 / (1 + 0.3275911 * z)
    c = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
    poly = t * (c[0] + t * (c[1] + t * (c[2] + t * (c[3] + t * c[4]))))
    return 0.5 * x * (1 + x.sign() * (1 - poly * (-z * z).exp()))


def gelu_manual(x: Tensor) -> Tensor:
    return x * 0.5 * (1 + torch.erf(x * math.sqrt(0.5)))


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    out: Tensor = F.scaled_dot_product_attention(q[None], k[None], v[None])
    return out[0]


def scores(q: Tensor, k: Tensor) -> Tensor:
    return (q @ k.mT) * float(q.shape[-1] ** -0.5)


def attention_manual(q: Tensor, k: Tensor, v: Tensor, total: Sum) -> Tensor:
    return softmax(scores(q, k), total) @ v


def attention_flash(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return softmax_online(scores(q, k), v)


LONG, ROWS, HEADS = (1 << 20,), (256, 4096), (8, 256, 64)
OPERATIONS: dict[str, Operation] = {
    "sum of rows": Operation(
        shapes=((64, 1 << 14),), reference=lambda x: x.sum(-1), variants=dict(SUMS)
    ),
    "mean": Operation(shapes=(LONG,), reference=torch.mean, variants=over_sums(mean)),
    "mse": Operation(
        shapes=(LONG, LONG),
        reference=F.mse_loss,
        variants=over_sums(lambda p, t, total: mean((p - t) * (p - t), total)),
    ),
    "mse gradient": Operation(
        shapes=(LONG, LONG, ()),
        reference=gradient(F.mse_loss),
        variants={
            "scale first": lambda p, t, g: (p - t) * (g * (2 / p.numel())),
            "scale last": lambda p, t, g: (p - t) * 2 / p.numel() * g,
        },
    ),
    "kl_div": Operation(
        shapes=((512, 2048), (512, 2048)),
        prepare=(lambda x: x.log_softmax(-1), lambda x: x.softmax(-1)),
        reference=kl,
        variants=over_sums(kl_manual) | {"log2": kl_log2},
    ),
    "smooth_l1": Operation(
        shapes=(LONG, LONG), reference=F.smooth_l1_loss, variants=over_sums(smooth)
    ),
    "softmax": Operation(
        shapes=(ROWS,),
        reference=lambda x: x.softmax(-1),
        variants=over_sums(softmax) | {"exp2": softmax_exp2, "online": softmax_online},
    ),
    "softmax gradient": Operation(
        shapes=(ROWS, ROWS),
        reference=gradient(lambda x: x.softmax(-1)),
        variants=over_sums(softmax_grad),
    ),
    "layer_norm": Operation(
        shapes=((512, 1024),),
        reference=norm,
        variants=over_sums(norm_two_pass) | {"one pass": norm_one_pass},
    ),
    "layer_norm gradient": Operation(
        shapes=((512, 1024), (512, 1024)), reference=gradient(norm), variants=over_sums(norm_grad)
    ),
    "matmul": Operation(
        shapes=((256, 4096), (4096, 256)),
        reference=torch.matmul,
        variants={
            "split K by 8": partial(matmul_split, parts=8),
            "one by one": partial(matmul_split, parts=4096),
            "3xTF32": matmul_3xtf32,
            "Strassen": matmul_strassen,
        },
    ),
    "conv2d": Operation(
        shapes=((4, 64, 32, 32), (64, 64, 3, 3)),
        reference=conv,
        variants={
            "im2col": partial(conv_unfold, parts=1),
            "one by one": partial(conv_unfold, parts=576),
            "Winograd F2": partial(conv_winograd, m=2),
            "Winograd F4": partial(conv_winograd, m=4),
        },
    ),
    "gelu": Operation(
        shapes=(LONG,), reference=F.gelu, variants={"manual": gelu_manual, "A&S erf": gelu_erf}
    ),
    "attention": Operation(
        shapes=(HEADS, HEADS, HEADS),
        reference=attention,
        variants=over_sums(attention_manual) | {"flash": attention_flash},
    ),
}


# --- downgrades


def tf32(x: Tensor) -> Tensor:
    """float32 rounded to ten bits of mantissa, half away from zero (PTX cvt.rna.tf32)."""
    bits = x.float().contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32).to(x.dtype)


def rounded(dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    return lambda x: x.to(dtype).to(x.dtype)


def downgrades(dtype: torch.dtype, reference: Compute, cuda: bool) -> dict[str, Compute]:
    """What must not pass as `dtype`: narrower inputs, narrower results, narrower inside."""
    wide = torch.float32
    if dtype is wide:
        narrow = {"TF32": tf32} | {
            n: rounded(d) for n, d in (("fp16", torch.float16), ("bf16", torch.bfloat16))
        }
        inside = {"fp16": torch.float16, "bf16": torch.bfloat16}
    else:
        narrow = {"fp8": rounded(torch.float8_e4m3fn)}
        narrow |= {"bf16": rounded(torch.bfloat16)} if dtype is torch.float16 else {}
        inside = {"bf16": torch.bfloat16} if dtype is torch.float16 else {}

    def inputs(*x: Tensor, to: Callable[[Tensor], Tensor]) -> Tensor:
        return reference(*(to(i) for i in x))

    def result(*x: Tensor, to: Callable[[Tensor], Tensor]) -> Tensor:
        return to(reference(*x))

    def all_in(*x: Tensor, to: torch.dtype) -> Tensor:
        return reference(*(i.to(to) for i in x)).to(wide)

    def real_tf32(*x: Tensor) -> Tensor:
        old = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        try:
            return reference(*x)
        finally:
            torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = old

    made: dict[str, Compute] = {f"{n} in": partial(inputs, to=f) for n, f in narrow.items()}
    made |= {f"{n} out": partial(result, to=f) for n, f in narrow.items()}
    made |= {f"all {n}": partial(all_in, to=d) for n, d in inside.items()}
    return made | ({"real TF32": real_tf32} if cuda and dtype is wide else {})


# --- measuring and printing


@dataclass(frozen=True, kw_only=True)
class Reading:
    """`ratio`: error ratio; `eps`: rms error / rms, in eps of the dtype; `use`: the worst
    |a - e| / (|e| + magnitude), to hold against the tolerances; `caught`: compare failed it."""

    ratio: float
    eps: float
    use: float
    caught: bool
    where: str


def read(actual: Tensor, expected: Tensor, oracle: Tensor, where: str) -> Reading | None:
    """None where a result is not finite: nothing to measure (and nothing that passes)."""
    if not (actual.isfinite().all() and expected.isfinite().all()):
        return None
    (check,) = judge.compare(actual, expected, root="output", oracle=oracle)
    a, e = actual.double(), expected.double()
    magnitude = e[e != 0].square().mean().sqrt()
    error = (a - oracle).square().mean() / oracle.square().mean()
    return Reading(
        ratio=check.error_ratio or 0.0,
        eps=float(error.sqrt()) / torch.finfo(expected.dtype).eps,
        use=float(((a - e).abs() / (e.abs() + magnitude)).max()),
        caught=not check.passed,
        where=where,
    )


HONEST = ("honest", "stepwise")  # stepwise: every intermediate result rounded to the dtype
#: Variants that add up in the inputs' own dtype: with float16 inputs, a downgrade.
ACCUMULATE = ("threads", "pairwise", "atomics", "one by one", "split K by 8")
Readings = dict[tuple[str, str], list[Reading]]  # (operation, one of HONEST or a downgrade)


def measure(device: torch.device, dtype: torch.dtype, draws: int) -> Readings:
    readings: Readings = defaultdict(list)
    for name, operation in OPERATIONS.items():
        for kind in INPUTS:
            for seed in range(draws):
                for group, reading in once(operation, kind, seed, device, dtype):
                    readings[name, group].append(reading)
    return readings


def once(
    op: Operation, kind: str, seed: int, device: torch.device, dtype: torch.dtype
) -> Iterator[tuple[str, Reading]]:
    """Readings of all variants on one draw of inputs; none where eager gives mostly noise."""
    source = torch.Generator().manual_seed(seed)
    made = [draw(shape, kind, source) for shape in op.shapes]
    made = [f(x) for f, x in zip(op.prepare, made, strict=True)] if op.prepare else made
    inputs = [x.to(device, dtype) for x in made]
    expected = op.reference(*inputs)
    oracle = op.reference(*(x.double() for x in inputs))
    if judge.noise(expected, oracle) > 1:  # as the judge does: nobody is judged by these inputs
        return
    results = [
        ("honest", name, compute(*(x.float() for x in inputs)))
        for name, compute in op.variants.items()
    ]
    if dtype is not torch.float32:
        results += [
            ("narrow sums" if name in ACCUMULATE else "stepwise", name, compute(*inputs))
            for name, compute in op.variants.items()
        ]
    results += [
        (name, name, compute(*inputs))
        for name, compute in downgrades(dtype, op.reference, device.type == "cuda").items()
    ]
    for group, name, result in results:
        if reading := read(result.to(dtype), expected, oracle, f"{name}, {kind}"):
            yield group, reading


def honest_table(readings: Readings, group: str) -> Iterator[str]:
    yield f"| {group} | largest ratio | where | its error, eps | largest use | where | failed |"
    yield "|---|---|---|---|---|---|---|"
    for name in OPERATIONS:
        rows = readings[name, group]
        if not rows:
            continue
        top, use = max(rows, key=lambda r: r.ratio), max(rows, key=lambda r: r.use)
        yield (
            f"| {name} | {top.ratio:.3g} | {top.where} | {top.eps:.3g} | {use.use:.2g} "
            f"| {use.where} | {sum(r.caught for r in rows)} of {len(rows)} |"
        )


def downgrade_table(readings: Readings) -> Iterator[str]:
    """Smallest ratio over inputs and draws, and in how many of them `compare` failed it."""
    groups = [g for g in dict.fromkeys(g for _, g in readings) if g not in HONEST]
    yield f"| operation | {' | '.join(groups)} |"
    yield "|---" * (len(groups) + 1) + "|"
    for name in OPERATIONS:
        cells = []
        for rows in (readings.get((name, g), []) for g in groups):
            least = min((r.ratio for r in rows), default=math.nan)
            cells.append(f"{least:.3g} ({sum(r.caught for r in rows)}/{len(rows)})")
        yield f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=("float32", "float16", "bfloat16"))
    parser.add_argument("--draws", type=int, default=3)
    args = parser.parse_args()
    device, dtype = torch.device(args.device), getattr(torch, args.dtype)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    readings = measure(device, dtype, args.draws)
    kind = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    print(f"torch {torch.__version__}, {kind}, {args.dtype}, {args.draws} draws of {INPUTS}\n")
    for group in HONEST[: 1 if dtype is torch.float32 else 2]:
        print("\n".join(honest_table(readings, group)), end="\n\n")
    print("\n".join(downgrade_table(readings)))


if __name__ == "__main__":
    main()
