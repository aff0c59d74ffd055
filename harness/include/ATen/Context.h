// In place of torch's: the global context and the hooks of a dozen back ends are most of what an
// operator's header costs, and no operator's header uses them. A source that does falls back.
#pragma once

#include <ATen/core/ATenGeneral.h>
#include <ATen/core/Generator.h>
#include <ATen/core/LegacyTypeDispatch.h>
