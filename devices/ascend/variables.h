// SPDX-License-Identifier: Apache-2.0
// What the environment says of a virtual NPU, whichever program sees it.
#pragma once
#include <string_view>
#include <vector>

#include "anyop_ascend/socs.h"
#include "devices/virtual/settings.h"

namespace virtual_device {

// What one library adds to what all read.
struct Additions {
  const char* variable;  // of words: `delay` and `trace`,
  std::vector<std::string_view>
      words;  // and these, which say nothing but that the device is wanted
  std::vector<anyop_ascend::NamedSoc> chips;  // that the dialect does not know
};

// The variable of words, ANYOP_ASCEND_SOC, ANYOP_ASCEND_DEVICES and ANYOP_ASCEND_MEMORY_BYTES.
Settings ReadVariables(const Additions& additions);
// The one of ANYOP_ASCEND_SOC; the first if it is none.
anyop_ascend::NamedSoc Soc(const Additions& additions);

}  // namespace virtual_device
