// The longer name by which torch's own headers know types.h.
#pragma once

#include <torch/types.h>
