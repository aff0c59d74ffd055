// What kernel sources use of torch's C++ interface, and pybind11 with the casters for tensors.
#pragma once

#include <torch/all.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
