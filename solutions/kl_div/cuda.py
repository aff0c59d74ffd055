"""Kullback-Leibler divergence in CUDA, at the speed of the memory: one pass forward, one back.

Float32, float16 and bfloat16, with float32 arithmetic and float64 sums. Non-contiguous inputs
are right, but copied. Every run gives the same bits: sums are formed in a fixed order, without
atomics. Only the inputs are kept for backward.

Two kernels make the forward pass: one leaves a partial sum for each block, one adds those up.
The second takes some microseconds, the first (at 2^28 elements) half a millisecond.

The forward pass is bound by the memory only if its arithmetic is cheap: see `log_ratio`.
"""

import torch
import torch.nn as nn
from torch.autograd.function import once_differentiable
from torch.utils.cpp_extension import load_inline

DEVICES = ("cuda",)

CPP_SOURCE = r"""
#include <tuple>

at::Tensor kl_div_forward(const at::Tensor& predictions, const at::Tensor& targets);
std::tuple<at::Tensor, at::Tensor> kl_div_backward(
    const at::Tensor& grad_output, const at::Tensor& predictions, const at::Tensor& targets,
    bool need_predictions, bool need_targets);
"""

CUDA_SOURCE = r"""
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <string>
#include <tuple>

namespace {

// A memory-bound kernel needs enough bytes under way to cover the latency of the memory, about
// 30 KiB for each multiprocessor of an H100. Here: 1024 threads x 4 packs x 16 bytes x 2 inputs
// = 128 KiB, so that it stays busy while other threads add up what they have got.
constexpr int kThreads = 512;      // in a block
constexpr int kBlocksPerSm = 2;    // resident blocks; leaves 64 registers for a thread
constexpr int kPacks = 4;          // loads of each input that a thread starts before it uses one
constexpr int kWarps = kThreads / 32;

// Backward has nothing to add up, so a thread takes one pack, and a block a small tile.
constexpr int kBackwardThreads = 256;

// Neighbouring elements that one instruction loads or stores: 16 bytes, the widest there is.
// One element where the data does not start at a multiple of 16 bytes.
template <typename scalar_t, int kLanes>
struct alignas(sizeof(scalar_t) * kLanes) Pack {
  scalar_t lane[kLanes];
};

// kStreaming: what is read once should not push other data out of the cache (cs). Only where
// nothing is written: beside stores, such loads slowed backward from 4.40 to 4.05 TB/s on an H200.
template <bool kStreaming, typename scalar_t, int kLanes>
__device__ __forceinline__ Pack<scalar_t, kLanes> load(const scalar_t* from) {
  Pack<scalar_t, kLanes> pack;
  if constexpr (sizeof(pack) == 16) {
    const auto* wide = reinterpret_cast<const uint4*>(from);
    *reinterpret_cast<uint4*>(&pack) = kStreaming ? __ldcs(wide) : *wide;
  } else {
    pack.lane[0] = *from;
  }
  return pack;
}

template <typename scalar_t, int kLanes>
__device__ __forceinline__ void store(scalar_t* to, const Pack<scalar_t, kLanes>& pack) {
  if constexpr (sizeof(pack) == 16) {
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(&pack);
  } else {
    *to = pack.lane[0];
  }
}

// The sum of `value` over the block, in thread 0. The order is fixed by the shape of the tree.
__device__ double block_sum(double value) {
  __shared__ double warp_sums[kWarps];
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = value;
  __syncthreads();
  double sum = 0;
  if (threadIdx.x == 0) {
    for (int warp = 0; warp < kWarps; ++warp) sum += warp_sums[warp];
  }
  return sum;
}

// log(t / p) for t in [2^-125, 2^125) and any normal positive p.
//
// While an H100 fetches a pair from memory, it can issue about 55 instructions for it. A pair
// takes 23 with this function, and 54 with logf(t) - logf(p), which leaves the memory waiting.
//
// A number's bits, read as an integer, are roughly its base-2 logarithm. So the difference of
// the bits, rounded to whole powers of two, gives k such that p 2^k is within a factor 1.51 of t.
// What is left is near 1: with s = (t - p 2^k) / (t + p 2^k), |s| < 0.201,
//     log(t / (p 2^k)) = 2 atanh(s) = s (2 + 2/3 s^2 + 2/5 s^4 + ...),
// which three fitted terms give to 3e-9, well under float's own 6e-8. It is also more accurate
// than log(t) - log(p), whose two roundings are of far larger numbers.
__device__ __forceinline__ float log_ratio(float t, float p) {
  const int t_bits = __float_as_int(t), p_bits = __float_as_int(p);
  const int exponent = (t_bits - p_bits + 0x00400000) & ~0x007fffff;  // k * 2^23
  const float scaled = __int_as_float(p_bits + exponent);
  const float top = t - scaled, bottom = t + scaled;
  float reciprocal;  // one instruction; the division operator takes eight
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(bottom));
  float s = top * reciprocal;
  s = fmaf(fmaf(-s, bottom, top), reciprocal, s);  // one Newton step: the last bit
  const float z = s * s;
  const float series = fmaf(z, fmaf(z, fmaf(z, 0.30371355f, 0.39957323f), 0.66666952f), 2.0f);
  constexpr float kLog2 = 0.693147181f / 8388608.0f;  // log(2) for one step of the exponent
  return fmaf(static_cast<float>(exponent), kLog2, s * series);
}

// May log_ratio be used? p must be a normal positive number: not zero, negative, subnormal,
// infinite or NaN; t positive and under 2^125, or zero. The bits of such numbers, as integers,
// lie in one range each.
__device__ __forceinline__ bool is_ordinary(float t, float p) {
  return __float_as_uint(p) - 0x00800000u < 0x7f000000u && __float_as_uint(t) < 0x7e000000u;
}

// Of an ordinary pair. A target of 0 adds 0, one under 2^-125 less than 1e-35: any finite
// logarithm will do for them.
__device__ __forceinline__ float ordinary_term(float t, float p) {
  constexpr float kSmallest = 2.35098870e-38f;  // 2^-125
  return t * log_ratio(fmaxf(t, kSmallest), p);
}

// Of any pair, as PyTorch defines it: 0 log(0) = 0, and the logarithm of a negative number NaN.
__device__ __forceinline__ float careful_term(float t, float p) {
  return (t == 0 ? 0.0f : t * logf(t)) - t * logf(p);
}

// For 16-bit inputs, and to base 2, as the hardware has it. Their pairs come twice as fast, which
// leaves log_ratio too little room; and the logarithm in hardware is wrong by 1e-6 only, where
// 16-bit numbers resolve 5e-4 at best.
__device__ __forceinline__ float fast_term_base_2(float t, float p) {
  return (t == 0 ? 0.0f : t * __log2f(t)) - t * __log2f(p);
}

// The sum of `term` over the pairs that a thread holds.
template <typename scalar_t, int kLanes, typename Term>
__device__ __forceinline__ float sum_of(const Pack<scalar_t, kLanes> (&t)[kPacks],
                                        const Pack<scalar_t, kLanes> (&p)[kPacks], Term term) {
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    float pack_sum = 0;
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      pack_sum += term(static_cast<float>(t[k].lane[lane]), static_cast<float>(p[k].lane[lane]));
    }
    sum += pack_sum;
  }
  return sum;
}

// partial_sums[block] = the sum of the terms that the block has met.
template <typename scalar_t, int kLanes>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    sum_of_terms(const scalar_t* __restrict__ predictions, const scalar_t* __restrict__ targets,
                 int64_t count, double* __restrict__ partial_sums) {
  constexpr int64_t kStride = kThreads * kLanes;  // from one pack of a thread to its next
  constexpr int64_t kTile = kStride * kPacks;     // elements that a block takes in one step
  const int64_t tiles = count / kTile;
  double sum = 0;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t first = tile * kTile + threadIdx.x * kLanes;
    Pack<scalar_t, kLanes> p[kPacks], t[kPacks];
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      p[k] = load<true, scalar_t, kLanes>(predictions + first + k * kStride);
      t[k] = load<true, scalar_t, kLanes>(targets + first + k * kStride);
    }
    // Float within a tile, double across tiles: float adds are cheap, and a tile has too few of
    // them to lose digits, however many tiles there are.
    if constexpr (sizeof(scalar_t) == 2) {
      constexpr float kLog2 = 0.693147181f;  // back to the natural logarithm
      sum += kLog2 * sum_of(t, p, [](float t, float p) { return fast_term_base_2(t, p); });
    } else {
      bool ordinary = true;
#pragma unroll
      for (int k = 0; k < kPacks; ++k) {
#pragma unroll
        for (int lane = 0; lane < kLanes; ++lane) {
          ordinary &= is_ordinary(t[k].lane[lane], p[k].lane[lane]);
        }
      }
      if (ordinary) {
        sum += sum_of(t, p, [](float t, float p) { return ordinary_term(t, p); });
      } else {
        sum += sum_of(t, p, [](float t, float p) { return careful_term(t, p); });
      }
    }
  }
  // The rest, less than a tile: one element for each thread of the grid.
  const int64_t threads = int64_t{gridDim.x} * kThreads;
#pragma unroll 1
  for (int64_t i = tiles * kTile + int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += threads) {
    sum += careful_term(static_cast<float>(targets[i]), static_cast<float>(predictions[i]));
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial_sums[blockIdx.x] = sum;
}

// output = (the sum of the partial sums) / divisor. One block.
template <typename scalar_t>
__global__ void __launch_bounds__(kThreads)
    finish(const double* __restrict__ partial_sums, int blocks, double divisor,
           scalar_t* __restrict__ output) {
  double sum = 0;
  for (int i = threadIdx.x; i < blocks; i += kThreads) sum += partial_sums[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *output = static_cast<scalar_t>(static_cast<float>(sum / divisor));
}

// gradient = -factor * targets / predictions, where factor = scale * grad_output.
template <typename scalar_t, int kLanes>
__global__ void __launch_bounds__(kBackwardThreads)
    gradient_of_predictions(const scalar_t* __restrict__ predictions,
                            const scalar_t* __restrict__ targets,
                            const scalar_t* __restrict__ grad_output, double scale, int64_t count,
                            scalar_t* __restrict__ gradient) {
  // grad_output is read here and not on the host, which would have to wait for the device.
  // The product in double: the factor is then rounded once, and its error shared by all elements.
  const float factor = static_cast<float>(-scale * static_cast<float>(*grad_output));
  const auto quotient = [factor](scalar_t t, scalar_t p) {
    return static_cast<scalar_t>(factor * static_cast<float>(t) / static_cast<float>(p));
  };
  const int64_t first = (int64_t{blockIdx.x} * kBackwardThreads + threadIdx.x) * kLanes;
  if (first + kLanes <= count) {
    const auto p = load<false, scalar_t, kLanes>(predictions + first);
    auto t = load<false, scalar_t, kLanes>(targets + first);
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) t.lane[lane] = quotient(t.lane[lane], p.lane[lane]);
    store(gradient + first, t);
  } else {
    for (int64_t i = first; i < count; ++i) gradient[i] = quotient(targets[i], predictions[i]);
  }
}

// gradient = factor * (log(targets / predictions) + 1); NaN at a target of 0, as in PyTorch.
// Seldom asked for, so kept simple.
template <typename scalar_t>
__global__ void __launch_bounds__(kBackwardThreads)
    gradient_of_targets(const scalar_t* __restrict__ predictions,
                        const scalar_t* __restrict__ targets,
                        const scalar_t* __restrict__ grad_output, double scale, int64_t count,
                        scalar_t* __restrict__ gradient) {
  const float factor = static_cast<float>(scale * static_cast<float>(*grad_output));
  const int64_t i = int64_t{blockIdx.x} * kBackwardThreads + threadIdx.x;
  if (i >= count) return;
  const float t = static_cast<float>(targets[i]), p = static_cast<float>(predictions[i]);
  gradient[i] = static_cast<scalar_t>(factor * (logf(t) - logf(p) + t / t));
}

// "[4, 6]". By hand: printing a number through a C++ stream was seen to crash where PyTorch and
// the compiler here bring different C++ runtimes.
std::string text(at::IntArrayRef sizes) {
  std::string list;
  for (const int64_t size : sizes) list += (list.empty() ? "" : ", ") + std::to_string(size);
  return "[" + list + "]";
}

void check_inputs(const at::Tensor& predictions, const at::Tensor& targets) {
  TORCH_CHECK(predictions.is_cuda() && predictions.device() == targets.device(),
              "kl_div: predictions and targets must be on the same CUDA device, got ",
              predictions.device(), " and ", targets.device());
  TORCH_CHECK(predictions.scalar_type() == targets.scalar_type(),
              "kl_div: predictions and targets must have the same dtype, got ",
              predictions.scalar_type(), " and ", targets.scalar_type());
  TORCH_CHECK(predictions.sizes() == targets.sizes(),
              "kl_div: predictions and targets must have the same shape, got ",
              text(predictions.sizes()), " and ", text(targets.sizes()));
  TORCH_CHECK(predictions.dim() > 0, "kl_div: the mean is over rows, a scalar has none");
}

// Calls run(scalar_t{}) with the C++ type of `dtype`.
template <typename Run>
void dispatch(at::ScalarType dtype, const Run& run) {
  switch (dtype) {
    case at::kFloat: return run(float{});
    case at::kHalf: return run(at::Half{});
    case at::kBFloat16: return run(at::BFloat16{});
    default:
      TORCH_CHECK(false, "kl_div: float32, float16 and bfloat16 are supported, got ", dtype);
  }
}

// One block for each tile: on an H200 forward is 1 % faster so, and backward 4 to 17 %, than with
// as many blocks as the device holds at once, each taking many tiles.
int blocks_for(int64_t count, int64_t tile) {
  return static_cast<int>(std::max<int64_t>((count + tile - 1) / tile, 1));
}

bool aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

}  // namespace

at::Tensor kl_div_forward(const at::Tensor& predictions_in, const at::Tensor& targets_in) {
  check_inputs(predictions_in, targets_in);
  const c10::cuda::CUDAGuard guard(predictions_in.device());
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  const at::Tensor predictions = predictions_in.contiguous();
  const at::Tensor targets = targets_in.contiguous();
  const int64_t count = predictions.numel();
  at::Tensor output = at::empty({}, predictions.options());

  dispatch(predictions.scalar_type(), [&](auto zero) {
    using scalar_t = decltype(zero);
    constexpr int kLanes = 16 / sizeof(scalar_t);
    const scalar_t* p = predictions.const_data_ptr<scalar_t>();
    const scalar_t* t = targets.const_data_ptr<scalar_t>();
    const bool wide = aligned(p) && aligned(t);
    const int blocks = blocks_for(count, kThreads * kPacks * (wide ? kLanes : 1));
    const at::Tensor partial_sums = at::empty({blocks}, predictions.options().dtype(at::kDouble));
    double* partial = partial_sums.mutable_data_ptr<double>();
    if (wide) {
      sum_of_terms<scalar_t, kLanes><<<blocks, kThreads, 0, stream>>>(p, t, count, partial);
    } else {
      sum_of_terms<scalar_t, 1><<<blocks, kThreads, 0, stream>>>(p, t, count, partial);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    finish<<<1, kThreads, 0, stream>>>(partial, blocks, static_cast<double>(predictions.size(0)),
                                       output.mutable_data_ptr<scalar_t>());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return output;
}

// The gradients for predictions and targets, each only where it is needed (else None in Python).
std::tuple<at::Tensor, at::Tensor> kl_div_backward(
    const at::Tensor& grad_output, const at::Tensor& predictions_in, const at::Tensor& targets_in,
    bool need_predictions, bool need_targets) {
  check_inputs(predictions_in, targets_in);
  const c10::cuda::CUDAGuard guard(predictions_in.device());
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  const at::Tensor predictions = predictions_in.contiguous();
  const at::Tensor targets = targets_in.contiguous();
  const int64_t count = predictions.numel();
  const double scale = 1 / static_cast<double>(predictions.size(0));
  at::Tensor grad_predictions, grad_targets;
  if (need_predictions) grad_predictions = at::empty_like(predictions);
  if (need_targets) grad_targets = at::empty_like(targets);

  dispatch(predictions.scalar_type(), [&](auto zero) {
    using scalar_t = decltype(zero);
    constexpr int kLanes = 16 / sizeof(scalar_t);
    const scalar_t* p = predictions.const_data_ptr<scalar_t>();
    const scalar_t* t = targets.const_data_ptr<scalar_t>();
    const scalar_t* g = grad_output.const_data_ptr<scalar_t>();
    const bool wide = aligned(p) && aligned(t);  // fresh memory, of the gradient, always is
    const int blocks = blocks_for(count, kBackwardThreads * (wide ? kLanes : 1));
    if (need_predictions) {
      scalar_t* out = grad_predictions.mutable_data_ptr<scalar_t>();
      if (wide) {
        gradient_of_predictions<scalar_t, kLanes>
            <<<blocks, kBackwardThreads, 0, stream>>>(p, t, g, scale, count, out);
      } else {
        gradient_of_predictions<scalar_t, 1>
            <<<blocks, kBackwardThreads, 0, stream>>>(p, t, g, scale, count, out);
      }
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
    if (need_targets) {
      gradient_of_targets<<<blocks_for(count, kBackwardThreads), kBackwardThreads, 0, stream>>>(
          p, t, g, scale, count, grad_targets.mutable_data_ptr<scalar_t>());
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
  });
  return {grad_predictions, grad_targets};
}
"""

extension = load_inline(
    name="kl_div_cuda",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["kl_div_forward", "kl_div_backward"],
    extra_cuda_cflags=["-O3"],
)


class KLDivergence(torch.autograd.Function):
    """sum(targets * log(targets / predictions)) / rows, with gradients for both.

    Only the inputs are kept for backward.
    """

    @staticmethod
    def forward(ctx, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(predictions, targets)
        return extension.kl_div_forward(predictions, targets)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: torch.Tensor):
        return extension.kl_div_backward(grad_output, *ctx.saved_tensors, *ctx.needs_input_grad)


class ModelNew(nn.Module):
    """Drop-in for the problem's Model."""

    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return KLDivergence.apply(predictions, targets)
