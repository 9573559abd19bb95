// SPDX-License-Identifier: Apache-2.0
// Reading what a library of a device brings (anyop/device.h).
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device/device.h"

namespace anyop {

struct NewDevice {
  std::uint64_t image = 0;           // the fingerprint of a file; 0: made in memory
  std::unique_ptr<DeviceKind> kind;  // null: kernels for the device of another library
  std::vector<std::pair<std::string, anyop_device_kernel>> kernels;  // full name of the operator
};

// The library's device and kernels, checked as far as that needs no operators. Nothing is
// registered yet, so that a refused library leaves nothing behind. Refused are a device that no
// program can name, one that would run kernels on memory that they cannot reach, and a kernel that
// no device would run. Throws NotAvailable if the tables are of another version or not whole,
// InvalidArgument for what they say.
NewDevice ReadDeviceLibrary(const anyop_device_info& info, const std::string& file,
                            std::uint64_t fingerprint = 0);

}  // namespace anyop
