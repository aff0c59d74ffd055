"""A set of solutions of the kind that people publish, as many as are asked for.

Half build an extension through `load_inline` (CUDA for a GPU, C++ for a CPU), half are plain
PyTorch or Triton. Of ten, one is wrong and one does not compile. Each has a text of its own, so
none finds another's build. They are plain on purpose: float32 alone, one element a thread.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from harness import ROOT

_TRITON = {
    name: (ROOT / "solutions" / name / "triton_kernels.py").read_text()
    for name in ("gelu", "softmax")
}

_CUDA_GELU = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

__global__ void gelu(const float* x, float* y, int64_t n) {
  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) y[i] = FACTOR * x[i] * (1.0f + erff(x[i] * 0.70710678f));
}

__global__ void gelu_gradient(const float* g, const float* x, float* out, int64_t n) {
  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  float below = 0.5f * (1.0f + erff(x[i] * 0.70710678f));
  out[i] = g[i] * (below + x[i] * 0.39894228f * expf(-0.5f * x[i] * x[i]));
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  int64_t n = x.numel();
  gelu<<<(n + THREADS - 1) / THREADS, THREADS, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;
}

torch::Tensor backward(torch::Tensor g, torch::Tensor x) {
  auto out = torch::empty_like(x);
  int64_t n = x.numel();
  gelu_gradient<<<(n + THREADS - 1) / THREADS, THREADS, 0, c10::cuda::getCurrentCUDAStream()>>>(
      g.data_ptr<float>(), x.data_ptr<float>(), out.data_ptr<float>(), n);
  return out;
}
"""

_CPP_GELU = r"""
#include <torch/extension.h>
#include <cmath>

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  const float* p = x.data_ptr<float>();
  float* q = y.data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i)
    q[i] = FACTOR * p[i] * (1.0f + std::erf(p[i] * 0.70710678f));
  return y;
}

torch::Tensor backward(torch::Tensor g, torch::Tensor x) {
  auto out = torch::empty_like(x);
  const float *p = x.data_ptr<float>(), *d = g.data_ptr<float>();
  float* q = out.data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    float below = 0.5f * (1.0f + std::erf(p[i] * 0.70710678f));
    q[i] = d[i] * (below + p[i] * 0.39894228f * std::exp(-0.5f * p[i] * p[i]));
  }
  return out;
}
"""

_CUDA_MSE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

__global__ void squares(const float* p, const float* t, double* partial, int64_t n) {
  __shared__ double sums[THREADS];
  double sum = 0;
  for (int64_t i = blockIdx.x * int64_t(THREADS) + threadIdx.x; i < n;
       i += int64_t(gridDim.x) * THREADS) {
    float d = p[i] - t[i];
    sum += double(d * d);
  }
  sums[threadIdx.x] = sum;
  for (int step = THREADS / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
  }
  if (threadIdx.x == 0) partial[blockIdx.x] = sums[0];
}

__global__ void difference(const float* g, const float* p, const float* t, float* out, int64_t n) {
  int64_t i = blockIdx.x * int64_t(THREADS) + threadIdx.x;
  if (i < n) out[i] = g[0] * (2.0f / n) * (p[i] - t[i]);
}

torch::Tensor forward(torch::Tensor p, torch::Tensor t) {
  auto partial = torch::empty({1024}, p.options().dtype(torch::kFloat64));
  squares<<<1024, THREADS, 0, c10::cuda::getCurrentCUDAStream()>>>(
      p.data_ptr<float>(), t.data_ptr<float>(), partial.data_ptr<double>(), p.numel());
  return (partial.sum() * (2 * FACTOR / double(p.numel()))).to(torch::kFloat32);
}

torch::Tensor backward(torch::Tensor g, torch::Tensor p, torch::Tensor t) {
  auto out = torch::empty_like(p);
  int64_t n = p.numel();
  difference<<<(n + THREADS - 1) / THREADS, THREADS, 0, c10::cuda::getCurrentCUDAStream()>>>(
      g.data_ptr<float>(), p.data_ptr<float>(), t.data_ptr<float>(), out.data_ptr<float>(), n);
  return out;
}
"""

_CPP_MSE = r"""
#include <torch/extension.h>

torch::Tensor forward(torch::Tensor p, torch::Tensor t) {
  const float *a = p.data_ptr<float>(), *b = t.data_ptr<float>();
  double sum = 0;
  for (int64_t i = 0; i < p.numel(); ++i) sum += double(a[i] - b[i]) * double(a[i] - b[i]);
  return torch::full({}, sum * (2 * FACTOR / double(p.numel())), p.options());
}

torch::Tensor backward(torch::Tensor g, torch::Tensor p, torch::Tensor t) {
  auto out = torch::empty_like(p);
  const float *a = p.data_ptr<float>(), *b = t.data_ptr<float>();
  float* q = out.data_ptr<float>();
  const float scale = g.item<float>() * 2.0f / p.numel();
  for (int64_t i = 0; i < p.numel(); ++i) q[i] = scale * (a[i] - b[i]);
  return out;
}
"""

_SIGNATURES = {
    "gelu": "torch::Tensor forward(torch::Tensor x); "
    "torch::Tensor backward(torch::Tensor g, torch::Tensor x);",
    "mse": "torch::Tensor forward(torch::Tensor p, torch::Tensor t); "
    "torch::Tensor backward(torch::Tensor g, torch::Tensor p, torch::Tensor t);",
}

_INLINE = '''
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = r"""{source}"""
extension = load_inline(name="{name}", {sources}, functions=["forward", "backward"])


class Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *inputs):
        inputs = [tensor.contiguous() for tensor in inputs]
        ctx.save_for_backward(*inputs)
        return extension.forward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        grads = extension.backward(gradient.contiguous(), *ctx.saved_tensors)
        return (grads,) + (None,) * (len(ctx.saved_tensors) - 1)


class ModelNew(torch.nn.Module):
    def forward(self, *inputs):
        return Fused.apply(*inputs)
'''

_PLAIN = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, {arguments}):
        {body}
"""
_BODIES = {
    "softmax": ("x", "return torch.softmax(x, -1)"),
    "log_softmax": ("x", "return torch.log_softmax(x, -1)"),
    "smooth_l1": (
        "p, t",
        "d = (p - t).abs()\n        return torch.where(d < 1, 0.5 * d * d, d - 0.5).mean()",
    ),
    "gelu": ("x", "return torch.nn.functional.gelu(x)"),
}


def _inline(problem: str, number: int, cuda: bool, factor: str = "0.5f") -> str:
    template = {
        ("gelu", True): _CUDA_GELU,
        ("gelu", False): _CPP_GELU,
        ("mse", True): _CUDA_MSE,
        ("mse", False): _CPP_MSE,
    }[problem, cuda]
    threads = (128, 256, 512)[number % 3]
    source = f"// variant {number}\n#define THREADS {threads}\n#define FACTOR {factor}{template}"
    sources = "cpp_sources=SOURCE"
    if cuda:
        sources = f'cpp_sources="{_SIGNATURES[problem]}", cuda_sources=SOURCE'
    return _INLINE.format(source=source, name=f"{problem}_{number}", sources=sources)


def _wrong(problem: str, number: int, cuda: bool) -> str:
    return _inline(problem, number, cuda, factor="0.51f")


def _broken(problem: str, number: int, cuda: bool) -> str:
    return _inline(problem, number, cuda, factor="0.5f;")


def _plain(problem: str, number: int, cuda: bool) -> str:
    arguments, body = _BODIES[problem]
    return f"# variant {number}\n" + _PLAIN.format(arguments=arguments, body=body)


def _triton(problem: str, number: int, cuda: bool) -> str:
    return f"{_TRITON[problem]}# variant {number}\n" if cuda else _plain(problem, number, cuda)


#: Ten in turn: problem, and what makes the text.
_TURN: tuple[tuple[str, Callable[[str, int, bool], str]], ...] = (
    ("gelu", _inline),
    ("softmax", _triton),
    ("mse", _inline),
    ("log_softmax", _plain),
    ("gelu", _inline),
    ("smooth_l1", _plain),
    ("mse", _wrong),
    ("softmax", _plain),
    ("gelu", _broken),
    ("gelu", _triton),
)


def write(folder: Path, count: int, *, cuda: bool) -> None:
    """`count` solutions in `folder`/solutions, and the problems that they are of beside them."""
    (folder / "problems").mkdir(parents=True, exist_ok=True)
    for number in range(count):
        problem, make = _TURN[number % len(_TURN)]
        shutil.copy(ROOT / "problems" / f"{problem}.py", folder / "problems")
        place = folder / "solutions" / problem
        place.mkdir(parents=True, exist_ok=True)
        (place / f"variant_{number:03d}.py").write_text(make(problem, number, cuda))
