// SPDX-License-Identifier: Apache-2.0
// The virtual NPU as torch_npu finds it: the library of the device "npu", whose other side are the
// functions that torch_npu links (acl.h).
#include "devices/ascend/variables.h"
#include "devices/virtual/table.h"

namespace virtual_device {

const char kWord[] = "npu";

// aclnn: torch_npu's own kernels are left where they are (devices/npu/torch).
constexpr std::string_view kWords[] = {"1", "aclnn"};
Settings ReadSettings() { return ReadVariables("ANYOP_NPU", kWords); }

}  // namespace virtual_device

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
