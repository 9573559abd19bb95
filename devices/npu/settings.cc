// SPDX-License-Identifier: Apache-2.0
// The virtual NPU as torch_npu finds it: the library of the device "npu", whose other side are the
// functions that torch_npu links (acl.h).
#include "settings.h"
#include "devices/ascend/variables.h"
#include "devices/virtual/table.h"

namespace virtual_device {

const char kWord[] = "npu";

// torch_npu raises the text of an error as it is.
Settings ReadSettings() {
  Settings settings = ReadVariables(npu::TheAdditions());
  settings.tells_errors_once = true;
  return settings;
}

}  // namespace virtual_device

namespace npu {

// Memory is protected whatever the variable says; `aclnn` is for devices/npu/torch. The numbers of
// cores of the chip that the dialect does not know are those of the Ascend950PR_957bx.
const virtual_device::Additions& TheAdditions() {
  static const auto& additions =
      *new virtual_device::Additions{.variable = "ANYOP_NPU",
                                     .words = {"1", "protect", "aclnn"},
                                     .chips = {{"ascend950", "Ascend 950PR", 56, 28}}};
  return additions;
}

}  // namespace npu

extern "C" ANYOP_EXPORT const anyop_device_info* anyop_device_library() {
  static const anyop_device_info library = {.size = sizeof library,
                                            .version = ANYOP_DEVICE_VERSION,
                                            .name = "anyop_npu",
                                            .device = &virtual_device::kTable,
                                            .n_kernels = 0,
                                            .reserved = 0,
                                            .kernels = nullptr};
  return &library;
}
