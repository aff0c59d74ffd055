"""Mean squared error, step 1: one atomic addition an element.

The sum is right, and every thread waits for the same address: the memory unit adds one value
after another. Backward has no sum, and is not bad even so.
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

__global__ void add_squares(const float* predictions, const float* targets, int64_t count,
                            double* sum) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float d = predictions[i] - targets[i];
  atomicAdd(sum, static_cast<double>(d * d));
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
  at::Tensor sum = at::zeros({}, predictions.options().dtype(at::kDouble));
  add_squares<<<(count + 255) / 256, 256, 0, stream>>>(p, t, count,
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
