// In place of torch's, for the factories of torch:: (variable_factories.h), which need this
// function of it and not the graph. Where a source asks for the graph itself, it falls back.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace torch::autograd {

using Variable = at::Tensor;

inline Variable make_variable(at::Tensor data, bool requires_grad = false) {
  if (data.defined()) data.set_requires_grad(requires_grad);
  return data;
}

} // namespace torch::autograd
