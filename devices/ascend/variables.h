// SPDX-License-Identifier: Apache-2.0
// What the environment says of a virtual NPU, whichever program sees it.
#pragma once
#include <span>
#include <string_view>

#include "anyop_ascend/socs.h"
#include "devices/virtual/settings.h"

namespace virtual_device {

// ANYOP_ASCEND_SOC, ANYOP_ASCEND_DEVICES and ANYOP_ASCEND_MEMORY_BYTES, and the words of a
// variable: `delay`, and those of `on`, which say nothing of the device.
Settings ReadVariables(const char* variable_of_words, std::span<const std::string_view> on);
// The one of ANYOP_ASCEND_SOC; the first if it is none.
const anyop_ascend::NamedSoc& Soc();

}  // namespace virtual_device
