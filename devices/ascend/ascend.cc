// SPDX-License-Identifier: Apache-2.0
// The virtual NPU: devices of the word "ascend" in the host's memory (devices/virtual), which look
// to a program as cards do. They run the host's kernels.
#include "devices/ascend/variables.h"
#include "devices/virtual/table.h"

namespace virtual_device {

const char kWord[] = "ascend";

Settings ReadSettings() {
  return ReadVariables({.variable = "ANYOP_ASCEND", .words = {}, .chips = {}});
}

namespace {

// Kernels in AscendC can be tried from programs whose tensors are the host's.
anyop_device WithHostCalls() {
  anyop_device table = kTable;
  table.takes_host_calls = 1;
  return table;
}

}  // namespace
}  // namespace virtual_device

extern "C" ANYOP_EXPORT const anyop_device_info* anyop_device_library() {
  static const anyop_device table = virtual_device::WithHostCalls();
  static const anyop_device_info library = {.size = sizeof library,
                                            .version = ANYOP_DEVICE_VERSION,
                                            .name = "anyop_ascend_device",
                                            .device = &table,
                                            .n_kernels = 0,
                                            .reserved = 0,
                                            .kernels = nullptr};
  return &library;
}
