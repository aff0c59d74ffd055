"""Mean squared error, step 2: threads add up what they meet, blocks what their threads have.

The grid is as large as the device holds at once, and strides over the data; one atomic addition a
block is left. Now the loads count: 4 bytes each, and one pair under way for each thread.
"""

import torch
import torch.nn as nn
from torch.autograd.function import once_differentiable
from torch.utils.cpp_extension import load_inline

DEVICES = ("cuda",)

CPP_SOURCE = r"""
at::Tensor forward(const at::Tensor& predictions, const at::Tensor& targets);
at::Tensor backward(const at::Tensor& grad_output, const at::Tensor& predictions,
                    const at::Tensor& targets);
"""

CUDA_SOURCE = r"""
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

// The sum of `value` over the block, in thread 0.
__device__ double block_sum(double value) {
  __shared__ double warp_sums[32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = value;
  __syncthreads();
  double sum = 0;
  if (threadIdx.x == 0) {
    for (int warp = 0; warp < blockDim.x / 32; ++warp) sum += warp_sums[warp];
  }
  return sum;
}

__global__ void add_squares(const float* predictions, const float* targets, int64_t count,
                            double* sum) {
  double own = 0;
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += threads) {
    const float d = predictions[i] - targets[i];
    own += d * d;
  }
  own = block_sum(own);
  if (threadIdx.x == 0) atomicAdd(sum, own);
}

__global__ void gradient_of(const float* predictions, const float* targets,
                            const float* grad_output, int64_t count, float* gradient) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) gradient[i] = (predictions[i] - targets[i]) * (2.0f / count * *grad_output);
}

void check(const at::Tensor& predictions, const at::Tensor& targets) {
  TORCH_CHECK(predictions.is_cuda() && targets.is_cuda(), "mse: CUDA tensors are asked for");
  TORCH_CHECK(predictions.scalar_type() == at::kFloat && targets.scalar_type() == at::kFloat,
              "mse: float32 is asked for");
  TORCH_CHECK(predictions.is_contiguous() && targets.is_contiguous() &&
                  predictions.sizes() == targets.sizes(),
              "mse: contiguous tensors of one shape are asked for");
}

at::Tensor forward(const at::Tensor& predictions, const at::Tensor& targets) {
  check(predictions, targets);
  const auto stream = c10::cuda::getCurrentCUDAStream();
  const int64_t count = predictions.numel();
  const float *p = predictions.const_data_ptr<float>(), *t = targets.const_data_ptr<float>();
  int device, multiprocessors;
  C10_CUDA_CHECK(cudaGetDevice(&device));
  C10_CUDA_CHECK(
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  at::Tensor sum = at::zeros({}, predictions.options().dtype(at::kDouble));
  add_squares<<<8 * multiprocessors, 256, 0, stream>>>(p, t, count,
                                                       sum.mutable_data_ptr<double>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return (sum / static_cast<double>(count)).to(at::kFloat);
}

at::Tensor backward(const at::Tensor& grad_output, const at::Tensor& predictions,
                    const at::Tensor& targets) {
  check(predictions, targets);
  const auto stream = c10::cuda::getCurrentCUDAStream();
  const int64_t count = predictions.numel();
  at::Tensor gradient = at::empty_like(predictions);
  gradient_of<<<(count + 255) / 256, 256, 0, stream>>>(
      predictions.const_data_ptr<float>(), targets.const_data_ptr<float>(),
      grad_output.const_data_ptr<float>(), count, gradient.mutable_data_ptr<float>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return gradient;
}
"""

extension = load_inline(
    name="mse_gallery",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["forward", "backward"],
    extra_cuda_cflags=["-O3"],
)


class MeanSquaredError(torch.autograd.Function):
    @staticmethod
    def forward(ctx, predictions, targets):
        ctx.save_for_backward(predictions, targets)
        return extension.forward(predictions, targets)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        gradient = extension.backward(grad_output, *ctx.saved_tensors)
        predictions_need, targets_need = ctx.needs_input_grad
        return gradient if predictions_need else None, -gradient if targets_need else None


class ModelNew(nn.Module):
    def forward(self, predictions, targets):
        return MeanSquaredError.apply(predictions, targets)
