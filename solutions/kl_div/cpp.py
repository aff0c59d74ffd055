"""Kullback-Leibler divergence in C++ for the CPU: one pass forward, one pass backward.

The logarithm is written out: the compiler cannot vectorise a loop that calls std::log.
The loops are plain: the compiler vectorises them, and `at::parallel_for` spreads them over
PyTorch's own threads. Float32 and float64, and float16 and bfloat16 with float32 arithmetic.
Non-contiguous inputs are right, but copied.
"""

import torch
import torch.nn as nn
from torch.autograd.function import once_differentiable
from torch.utils.cpp_extension import load_inline

DEVICES = ("cpu",)

CPP_SOURCE = r"""
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <tuple>
#include <type_traits>
#include <vector>

namespace {

// Elements in one task. Each task's sum has its own place, and the places are added in order:
// the same bits however many threads there are.
constexpr int64_t kTask = 16384;
// Elements whose terms are added in float, in as many lanes as a vector has: short enough to lose
// nothing that shows, and twice as fast as adding each in double.
constexpr int64_t kRun = 128;

void check_inputs(const at::Tensor& predictions, const at::Tensor& targets) {
  TORCH_CHECK(predictions.device().is_cpu() && targets.device().is_cpu(),
              "kl_div: predictions and targets must be on the CPU, got ", predictions.device(),
              " and ", targets.device());
  TORCH_CHECK(predictions.scalar_type() == targets.scalar_type(),
              "kl_div: predictions and targets must have the same dtype, got ",
              predictions.scalar_type(), " and ", targets.scalar_type());
  TORCH_CHECK(at::isFloatingType(predictions.scalar_type()),
              "kl_div: float32, float64, float16 and bfloat16 are supported, got ",
              predictions.scalar_type());
  TORCH_CHECK(predictions.sizes() == targets.sizes(),
              "kl_div: predictions and targets must have the same shape, got [",
              c10::Join(", ", predictions.sizes()), "] and [",
              c10::Join(", ", targets.sizes()), "]");
  TORCH_CHECK(predictions.dim() > 0, "kl_div: the mean is over rows, a scalar has none");
}

inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(value));
  return bits;
}

// log(t / p) for t in [2^-125, 2^125) and any normal positive p; of others, anything.
//
// A number's bits, read as an integer, are roughly its base-2 logarithm. So the difference of
// the bits, rounded to whole powers of two, gives k such that p 2^k is within a factor 1.51 of t.
// What is left is near 1: with s = (t - p 2^k) / (t + p 2^k), |s| < 0.201,
//     log(t / (p 2^k)) = 2 atanh(s) = s (2 + 2/3 s^2 + 2/5 s^4 + ...),
// which three fitted terms give to 3e-9, well under float's own 6e-8. Only one division and no
// branch; and more accurate than log(t) - log(p), whose two roundings are of far larger numbers.
inline float log_ratio(float t, float p) {
  const uint32_t exponent = (bits_of(t) - bits_of(p) + 0x00400000) & ~0x007fffffu;  // k * 2^23
  const uint32_t scaled_bits = bits_of(p) + exponent;
  float scaled;
  std::memcpy(&scaled, &scaled_bits, sizeof(scaled));
  const float s = (t - scaled) / (t + scaled);
  const float z = s * s;
  const float series = 2 + z * (0.66666952f + z * (0.39957323f + z * 0.30371355f));
  constexpr float kLog2 = 0.693147181f / 8388608.0f;  // log(2) for one step of the exponent
  return s * series + kLog2 * static_cast<float>(static_cast<int32_t>(exponent));
}

template <typename math_t>
math_t careful_term(math_t t, math_t p) {
  const math_t t_log_t = t == 0 ? math_t(0) : t * std::log(t);  // xlogy: 0 log(0) = 0
  return t_log_t - t * std::log(p);
}

template <typename scalar_t>
double sum_of_terms(const scalar_t* predictions, const scalar_t* targets, int64_t count) {
  using math_t = at::opmath_type<scalar_t>;  // float for the 16-bit types
  double sum = 0;
  if constexpr (std::is_same_v<math_t, float>) {
    // May log_ratio be used? Zero, negative, subnormal, infinite and NaN predictions need care,
    // and negative, huge and NaN targets: told by their bits, for a vector of which one comparison
    // is enough. A target of 0 adds 0, one under 2^-125 less than 1e-35: any finite logarithm will
    // do for them. What comes of others is thrown away.
    constexpr uint32_t kNormal = 0x00800000, kInfinite = 0x7f800000, kHuge = 0x7e000000;  // 2^125
    uint32_t odd = 0;
    for (int64_t first = 0; first < count; first += kRun) {
      const int64_t last = std::min(first + kRun, count);
      float run = 0;
      // A compiler may not reorder a floating-point sum, and so not vectorise it, unless told so.
#pragma omp simd reduction(| : odd) reduction(+ : run)
      for (int64_t i = first; i < last; ++i) {
        const float p = static_cast<float>(predictions[i]), t = static_cast<float>(targets[i]);
        odd |= (bits_of(p) - kNormal >= kInfinite - kNormal) | (bits_of(t) >= kHuge);
        run += t * log_ratio(t > 0x1p-125f ? t : 0x1p-125f, p);
      }
      sum += run;
    }
    if (!odd) return sum;
    sum = 0;
  }
  for (int64_t i = 0; i < count; ++i) {
    sum += static_cast<double>(
        careful_term(static_cast<math_t>(targets[i]), static_cast<math_t>(predictions[i])));
  }
  return sum;
}

// gradient[i] = -factor * targets[i] / predictions[i]
template <typename scalar_t>
void gradient_of_predictions(const scalar_t* predictions, const scalar_t* targets, double factor,
                             scalar_t* gradient, int64_t count) {
  using math_t = at::opmath_type<scalar_t>;
  const math_t scale = static_cast<math_t>(-factor);
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    gradient[i] = static_cast<scalar_t>(
        scale * static_cast<math_t>(targets[i]) / static_cast<math_t>(predictions[i]));
  }
}

// gradient[i] = factor * (log(targets[i] / predictions[i]) + 1); NaN at a target of 0, as in
// PyTorch. In double, for the logarithms may cancel the 1. Seldom asked for, so kept simple.
template <typename scalar_t>
void gradient_of_targets(const scalar_t* predictions, const scalar_t* targets, double factor,
                         scalar_t* gradient, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const double p = static_cast<double>(predictions[i]), t = static_cast<double>(targets[i]);
    gradient[i] = static_cast<scalar_t>(factor * (std::log(t) - std::log(p) + t / t));
  }
}

}  // namespace

at::Tensor kl_div_forward(const at::Tensor& predictions_in, const at::Tensor& targets_in) {
  check_inputs(predictions_in, targets_in);
  const at::Tensor predictions = predictions_in.contiguous();
  const at::Tensor targets = targets_in.contiguous();
  const int64_t count = predictions.numel();
  const int64_t tasks = (count + kTask - 1) / kTask;
  std::vector<double> sums(tasks);

  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, predictions.scalar_type(), "kl_div_forward", [&] {
        const scalar_t* p = predictions.const_data_ptr<scalar_t>();
        const scalar_t* t = targets.const_data_ptr<scalar_t>();
        at::parallel_for(0, tasks, 1, [&](int64_t begin, int64_t end) {
          for (int64_t task = begin; task < end; ++task) {
            const int64_t first = task * kTask;
            sums[task] = sum_of_terms(p + first, t + first, std::min(kTask, count - first));
          }
        });
      });
  const double total = std::accumulate(sums.begin(), sums.end(), 0.0);
  return at::scalar_tensor(total / static_cast<double>(predictions.size(0)), predictions.options());
}

// The gradients for predictions and targets, each only where it is needed (else None in Python).
std::tuple<at::Tensor, at::Tensor> kl_div_backward(
    const at::Tensor& grad_output, const at::Tensor& predictions_in, const at::Tensor& targets_in,
    bool need_predictions, bool need_targets) {
  check_inputs(predictions_in, targets_in);
  const at::Tensor predictions = predictions_in.contiguous();
  const at::Tensor targets = targets_in.contiguous();
  const int64_t count = predictions.numel();
  at::Tensor grad_predictions, grad_targets;
  if (need_predictions) grad_predictions = at::empty_like(predictions);
  if (need_targets) grad_targets = at::empty_like(targets);
  const double factor = grad_output.item<double>() / static_cast<double>(predictions.size(0));

  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, predictions.scalar_type(), "kl_div_backward", [&] {
        const scalar_t* p = predictions.const_data_ptr<scalar_t>();
        const scalar_t* t = targets.const_data_ptr<scalar_t>();
        scalar_t* gp = need_predictions ? grad_predictions.mutable_data_ptr<scalar_t>() : nullptr;
        scalar_t* gt = need_targets ? grad_targets.mutable_data_ptr<scalar_t>() : nullptr;
        at::parallel_for(0, count, kTask, [&](int64_t begin, int64_t end) {
          const int64_t n = end - begin;
          if (gp) gradient_of_predictions(p + begin, t + begin, factor, gp + begin, n);
          if (gt) gradient_of_targets(p + begin, t + begin, factor, gt + begin, n);
        });
      });
  return {grad_predictions, grad_targets};
}
"""

extension = load_inline(
    name="kl_div_cpp",
    cpp_sources=CPP_SOURCE,
    functions=["kl_div_forward", "kl_div_backward"],
    # -march=native: the vector instructions of this machine, where the code also runs.
    # -fopenmp only when compiling: it turns on at::parallel_for and `omp simd`; the runtime that
    # is then called is the one that PyTorch has loaded, so there is one pool of threads.
    extra_cflags=["-O3", "-march=native", "-fopenmp"],
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
