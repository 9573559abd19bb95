// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include <c10/core/Allocator.h>

#include <memory>

#include "operator.h"

namespace anyop::torch_host {
namespace {

struct DeviceType {
  int dlpack_type;
  c10::DeviceType type;
  c10::DispatchKey key, autocast;
};
// By DLPack's numbers. 12 is its kDLExtDev, any device of a third party, as PrivateUse1 is torch's.
constexpr DeviceType kTypes[] = {
    {2, c10::DeviceType::CUDA, c10::DispatchKey::CUDA, c10::DispatchKey::AutocastCUDA},
    {10, c10::DeviceType::CUDA, c10::DispatchKey::CUDA, c10::DispatchKey::AutocastCUDA},  // ROCm
    {12, c10::DeviceType::PrivateUse1, c10::DispatchKey::PrivateUse1,
     c10::DispatchKey::AutocastPrivateUse1},
    {14, c10::DeviceType::XPU, c10::DispatchKey::XPU, c10::DispatchKey::AutocastXPU},
};

const DeviceType& RowOf(c10::DeviceType type) {
  for (const DeviceType& t : kTypes) {
    if (t.type == type) return t;
  }
  throw Error(ANYOP_UNSUPPORTED, "torch's devices of this type cannot have a library of anyop's.");
}

c10::Device TorchDeviceOf(DLDevice device) {
  const auto type = TorchTypeOf(device.device_type);
  return {type ? *type : c10::DeviceType::CPU, c10::DeviceIndex(device.device_id)};
}

anyop_stream StreamOf(DLDevice device) {
  const c10::Device mine = TorchDeviceOf(device);
  const c10::impl::VirtualGuardImpl guard(mine.type());
  return guard.getStreamNativeHandle(guard.getStream(mine));
}

// In the order of torch's current stream: a block that is released goes to later work on the same
// stream, so that nobody waits for its last use.
void* Allocate(DLDevice device, std::uint64_t bytes, void** owner) {
  c10::Allocator* allocator = c10::GetAllocator(TorchDeviceOf(device).type());
  auto memory = std::make_unique<c10::DataPtr>(allocator->allocate(bytes));
  void* const data = memory->get();
  *owner = memory.release();
  return data;
}

void ReleaseMemory(void* owner) { delete static_cast<c10::DataPtr*>(owner); }

constexpr DeviceHost kTorchDevices = {&StreamOf, &Allocate, &ReleaseMemory};

}  // namespace

std::optional<c10::DeviceType> TorchTypeOf(int dlpack_type) {
  for (const DeviceType& t : kTypes) {
    if (t.dlpack_type == dlpack_type) return t.type;
  }
  return std::nullopt;
}

DLDevice DLDeviceOf(c10::Device device) {
  if (device.is_cpu()) return kHostDevice;
  for (const DeviceType& t : kTypes) {
    if (t.type == device.type() && FindDeviceKind(t.dlpack_type)) {
      return {t.dlpack_type, device.has_index() ? device.index() : 0};
    }
  }
  return {0, 0};
}

c10::DispatchKey BackendKey(c10::DeviceType type) { return RowOf(type).key; }
c10::DispatchKey AutocastKey(c10::DeviceType type) { return RowOf(type).autocast; }

TorchDevice::TorchDevice(c10::Device device)
    : host_(&kTorchDevices), guard_(device.type()), before_(guard_.exchangeDevice(device)) {}
TorchDevice::~TorchDevice() { guard_.uncheckedSetDevice(before_); }

}  // namespace anyop::torch_host
