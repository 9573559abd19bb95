// SPDX-License-Identifier: Apache-2.0
// The current stream of torch's device (PrivateUse1), by the names of torch_npu's documentation.
#pragma once
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "acl/acl.h"

namespace c10_npu {

class NPUStream {
 public:
  explicit NPUStream(c10::Stream stream) : stream_(stream) {}

  // What a launch takes: kernel<<<blocks, nullptr, stream>>>(...). Work that torch has put on the
  // stream before comes first, whatever the argument, as torch's device has no second queue.
  aclrtStream stream(bool = true) const {
    return c10::impl::VirtualGuardImpl(stream_.device_type()).getStreamNativeHandle(stream_);
  }
  operator aclrtStream() const { return stream(); }
  operator c10::Stream() const { return stream_; }
  c10::Stream unwrap() const { return stream_; }
  c10::DeviceIndex device_index() const { return stream_.device_index(); }
  c10::StreamId id() const { return stream_.id(); }
  void synchronize() const { stream_.synchronize(); }
  bool query() const { return stream_.query(); }
  bool operator==(const NPUStream& other) const { return stream_ == other.stream_; }

 private:
  c10::Stream stream_;
};

inline NPUStream getCurrentNPUStream(c10::DeviceIndex index = -1) {
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::PrivateUse1);
  const c10::Device current = guard.getDevice();
  return NPUStream(
      guard.getStream(index < 0 ? current : c10::Device(c10::DeviceType::PrivateUse1, index)));
}

}  // namespace c10_npu
