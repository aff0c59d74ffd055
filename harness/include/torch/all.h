// What kernel sources use of torch's C++ interface: types.h, grad modes, threads, synchronize.
#pragma once

#include <torch/types.h>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/cuda.h>

namespace torch {

using NoGradGuard = at::NoGradGuard;
using AutoGradMode = at::AutoGradMode;

} // namespace torch
