// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "anyop_ascend/core.h"

namespace anyop_ascend {

// Both run a launch and return whether every block came to its end.
bool LaunchChecked(const LaunchOf& launch);
bool LaunchFast(const LaunchOf& launch);

}  // namespace anyop_ascend
