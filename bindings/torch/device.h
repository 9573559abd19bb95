// SPDX-License-Identifier: Apache-2.0
// torch as the owner of a device: its streams, its allocator, its types of devices.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKey.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>

#include "anyop/value.h"
#include "runtime/device/device.h"

namespace anyop::torch_host {

// The type of torch's devices whose tensors have this DLPack type; none: torch has no such one.
std::optional<c10::DeviceType> TorchTypeOf(int dlpack_type);
// The opposite. kHostDevice for the host; a type of 0 where no loaded library has the device.
DLDevice DLDeviceOf(c10::Device device);
// The dispatch key of operators on such tensors, and of autocast around them.
c10::DispatchKey BackendKey(c10::DeviceType type);
c10::DispatchKey AutocastKey(c10::DeviceType type);

// While it lives, calls of this thread take torch's current stream and torch's memory, and `device`
// is torch's current device.
class TorchDevice {
 public:
  explicit TorchDevice(c10::Device device);
  ~TorchDevice();
  TorchDevice(const TorchDevice&) = delete;
  TorchDevice& operator=(const TorchDevice&) = delete;

 private:
  const CallingDeviceHost host_;
  const c10::impl::VirtualGuardImpl guard_;
  const c10::Device before_;
};

}  // namespace anyop::torch_host
