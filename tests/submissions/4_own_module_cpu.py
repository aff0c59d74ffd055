"""First-day submission 4 in C++ over addresses: its own PYBIND11_MODULE and `functions=[...]`.

With FUNCTIONS = None the build is mended; then the arguments are the wrong way round, and the
sum is divided by the number of features.
"""

import torch
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = r"""
#include <pybind11/pybind11.h>

#include <cmath>
#include <cstdint>

double kl_div(std::uintptr_t predictions, std::uintptr_t targets, int rows, int columns) {
  const float* p = reinterpret_cast<const float*>(predictions);
  const float* t = reinterpret_cast<const float*>(targets);
  double sum = 0;
  for (int i = 0; i < rows * columns; ++i) sum += p[i] * (std::log(p[i]) - std::log(t[i]));
  return sum / columns;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("kl_div", &kl_div, "KL divergence");
}
"""

FUNCTIONS = ["kl_div"]

extension = load_inline(
    name="kl_div_extension",
    cpp_sources=CPP_SOURCE,
    functions=FUNCTIONS,
    no_implicit_headers=True,
    with_pytorch_error_handling=False,
)


class ModelNew(torch.nn.Module):
    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        addresses = predictions.data_ptr(), targets.data_ptr()
        return torch.tensor(extension.kl_div(*addresses, *predictions.shape))
