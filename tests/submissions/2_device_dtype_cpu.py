"""First-day submission 2 in C++, with the one header that it needs: it fails in a second."""

import torch
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = r"""
#include <c10/core/Device.h>

int smooth_l1(const c10::Device& device) {
  auto dtype = device.dtype();
  return static_cast<int>(dtype);
}
"""

extension = load_inline(
    name="smooth_l1_extension",
    cpp_sources=CPP_SOURCE,
    no_implicit_headers=True,
)


class ModelNew(torch.nn.Module):
    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return extension.smooth_l1(predictions.device)
