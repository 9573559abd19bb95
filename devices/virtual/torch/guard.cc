// SPDX-License-Identifier: Apache-2.0
// What torch asks of a device: current device and streams, events, generators, memory.
#include "guard.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <chrono>
#include <thread>

#include "generator.h"
#include "memory.h"
#include "table.h"

namespace virtual_torch {
namespace {

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return DeviceAt(-1); }
  void setDevice(c10::Device device) const override {
    if (device.index() >= deviceCount()) {
      Raise(ANYOP_INTERNAL,
            Word() + ": there is no device " + std::to_string(device.index()) + ".");
    }
    uncheckedSetDevice(device);
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) SetCurrentDevice(device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return Table() ? c10::DeviceIndex(Table()->count()) : c10::DeviceIndex(0);
  }

  c10::Stream getStream(c10::Device device) const override { return CurrentStream(device.index()); }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return DefaultStream(device.index());
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return PooledStream(device.index());
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return PooledStream(device.index());
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = CurrentStream(stream.device_index());
    SetCurrentStream(stream);
    return before;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return Native(stream); }
  // An event that was recorded a moment ago is not complete, even where the stream has nothing else
  // to do: who asks in a loop would never hear yes.
  bool queryStream(const c10::Stream& stream) const override {
    constexpr auto kPatience = std::chrono::milliseconds(2);
    void* event = nullptr;
    record(&event, stream, stream.device_index(), c10::EventFlag::PYTORCH_DEFAULT);
    const auto latest = std::chrono::steady_clock::now() + kPatience;
    while (!queryEvent(event) && std::chrono::steady_clock::now() < latest) {
      std::this_thread::yield();
    }
    const bool is_complete = queryEvent(event);
    destroyEvent(event, stream.device_index());
    return is_complete;
  }
  void synchronizeStream(const c10::Stream& stream) const override { Synchronize(stream); }
  void synchronizeDevice(c10::DeviceIndex index) const override {
    Synchronize(DeviceAt(index).index());
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    DeviceMemory().recordStream(data, stream);
  }

  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    if (event) Table()->destroy_event(event);
  }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex index,
              c10::EventFlag) const override {
    if (*event == nullptr) Must(Table()->create_event(DeviceAt(index).index(), event));
    Must(Table()->record_event(*event, Native(stream)));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event) Must(Table()->wait_event(event, Native(stream)));
  }
  bool queryEvent(void* event) const override {
    std::int32_t is_complete = 1;
    if (event) Must(Table()->query_event(event, &is_complete));
    if (is_complete) synchronizeEvent(event);  // raises what went wrong before it
    return is_complete;
  }
  void synchronizeEvent(void* event) const override {
    if (event) Must(Table()->synchronize_event(event));
  }
  double elapsedTime(void* from, void* to, c10::DeviceIndex) const override {
    double milliseconds;
    synchronizeEvent(to);
    Must(Table()->elapsed(from, to, &milliseconds));
    return milliseconds;
  }
};

const Guard g_guard;

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return Table() != nullptr; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return Table() != nullptr; }
  c10::DeviceIndex deviceCount() const override { return g_guard.deviceCount(); }
  void setCurrentDevice(c10::DeviceIndex index) const override {
    g_guard.setDevice({kType, index});
  }
  c10::DeviceIndex getCurrentDevice() const override { return DeviceAt(-1).index(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    return g_guard.exchangeDevice({kType, index}).index();
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? getCurrentDevice() : exchangeDevice(index);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return DefaultGenerator(index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return NewGenerator(index);
  }
  at::Device getDeviceFromPtr(void*) const override { return DeviceAt(-1); }
  bool isPinnedPtr(const void* data) const override { return IsPinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &PinnedAllocator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    ResizeBytes(storage, bytes);
  }
};

}  // namespace

// The hooks first: they refuse a second device.
void RegisterGuard() {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  c10::SetAllocator(kType, &DeviceMemory());
  c10::impl::registerDeviceGuard(kType, &g_guard);
}

}  // namespace virtual_torch
