// What kernel sources use of torch:: : at:: under that name, the factories, the dtypes.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/generated/variable_factories.h>

#include <optional>

namespace torch {

using namespace at;
using std::nullopt;
using std::optional;

using Dtype = at::ScalarType;

constexpr auto kUInt8 = at::kByte, kU8 = kUInt8;
constexpr auto kInt8 = at::kChar, kI8 = kInt8;
constexpr auto kInt16 = at::kShort, kI16 = kInt16;
constexpr auto kInt32 = at::kInt, kI32 = kInt32;
constexpr auto kInt64 = at::kLong, kI64 = kInt64;
constexpr auto kUInt16 = at::kUInt16, kU16 = kUInt16;
constexpr auto kUInt32 = at::kUInt32, kU32 = kUInt32;
constexpr auto kUInt64 = at::kUInt64, kU64 = kUInt64;
constexpr auto kFloat16 = at::kHalf, kF16 = kFloat16;
constexpr auto kFloat32 = at::kFloat, kF32 = kFloat32;
constexpr auto kFloat64 = at::kDouble, kF64 = kFloat64;

} // namespace torch
