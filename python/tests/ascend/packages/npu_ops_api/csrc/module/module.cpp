// SPDX-License-Identifier: Apache-2.0
#include "module/module.h"

PYBIND11_MODULE(MS_EXTENSION_NAME, m) {
  m.doc() = "Custom operators";
  for (const auto &function : Registered()) function(m);
}
