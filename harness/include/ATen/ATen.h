// What kernel sources use of ATen: tensors, dispatch macros, and the operators that they name.
#pragma once

#define AT_PER_OPERATOR_HEADERS  // each operator's own header, not one with all two thousand

#include <ATen/Context.h>
#include <ATen/DeviceGuard.h>
#include <ATen/Dispatch.h>
#include <ATen/Formatting.h>
#include <ATen/ScalarOps.h>
#include <ATen/TensorOperators.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/Tensor.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/ScalarType.h>
#include <c10/core/TensorOptions.h>
#include <c10/util/Exception.h>
#include <c10/util/Logging.h>

#include <harness_operators.h>  // written for each build: ATen/ops/NAME.h of each name in the source
