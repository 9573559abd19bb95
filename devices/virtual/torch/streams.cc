// SPDX-License-Identifier: Apache-2.0
// torch's streams, where torch has no backend for the device but this one.
#include <array>
#include <mutex>
#include <vector>

#include "table.h"

namespace virtual_torch {
namespace {

constexpr int kPooled = 8;

thread_local c10::DeviceIndex t_device = 0;
thread_local std::array<c10::StreamId, kMostDevices> t_streams{};

c10::Stream StreamOf(c10::DeviceIndex index, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, DeviceAt(index), id);
}

}  // namespace

c10::Device DeviceAt(c10::DeviceIndex index) { return {kType, index < 0 ? t_device : index}; }
void SetCurrentDevice(c10::DeviceIndex index) { t_device = index; }

c10::Stream CurrentStream(c10::DeviceIndex index) {
  return StreamOf(index, t_streams[std::size_t(DeviceAt(index).index())]);
}
void SetCurrentStream(const c10::Stream& stream) {
  t_streams[std::size_t(stream.device_index())] = stream.id();
}
c10::Stream DefaultStream(c10::DeviceIndex index) { return StreamOf(index, 0); }

c10::Stream PooledStream(c10::DeviceIndex index) {
  static std::mutex mutex;
  static std::array<std::vector<anyop_stream>, kMostDevices> pools;
  static std::array<std::size_t, kMostDevices> next{};
  const auto device = std::size_t(DeviceAt(index).index());
  const std::lock_guard lock(mutex);
  if (pools[device].size() < kPooled) {
    anyop_stream made;
    Must(Table()->create_stream(std::int32_t(device), &made));
    pools[device].push_back(made);
  }
  const anyop_stream given = pools[device][next[device]++ % kPooled];
  return StreamOf(c10::DeviceIndex(device), reinterpret_cast<c10::StreamId>(given));
}

anyop_stream Native(const c10::Stream& stream) {
  if (stream.id() != 0) return reinterpret_cast<anyop_stream>(stream.id());
  const anyop_stream handle = Table()->default_stream(stream.device_index());
  if (handle == nullptr) Must(ANYOP_NOT_AVAILABLE);
  return handle;
}
anyop_stream CurrentNative(c10::DeviceIndex index) { return Native(CurrentStream(index)); }

void Synchronize(const c10::Stream& stream) {
  const anyop_stream native = Native(stream);
  Must(Table()->synchronize(stream.device_index(), native));
  Sweep(native);
  RaiseLate(stream.device_index(), native);
}

void Synchronize(c10::DeviceIndex index) {
  Must(Table()->synchronize(index, nullptr));
  RaiseLate(index, nullptr);
}

}  // namespace virtual_torch
