// SPDX-License-Identifier: Apache-2.0
// Copies of a device's tensors in the order of its current stream. Strided ones are made by the
// device; if it cannot, Unsupported is thrown before anything is on the stream.
#pragma once
#include <string>

#include "anyop/tensor.h"
#include "platform/error.h"
#include "runtime/device/device.h"
#include "runtime/plan/key.h"

namespace anyop {

// The device could not say when a copy is over. It may still read or write memory of the host,
// which its owner must not free.
struct StillCopying : Error {
  using Error::Error;
};

// A stream of the device of a tensor, as calls of this thread see it.
struct DeviceTarget {
  explicit DeviceTarget(DLDevice device)
      : kind(DeviceKindOf(device)), number(device.device_id), stream(CurrentStream(kind, number)) {}
  const anyop_device& table() const { return kind.table; }
  void Check(int code) const { kind.Check(code, number); }
  // Waits for the work on the stream, and throws its late error. Throws StillCopying where the
  // device fails and cannot wait for all of its work either.
  void Wait() const;
  // Waits after a failure; false: in vain.
  bool Settle() const;

  const DeviceKind& kind;
  const int number;
  const anyop_stream stream;
};

// Whether the device can read tensors with gaps, and write them, for a copy without gaps.
inline bool CanPack(const anyop_device& table) { return table.pack || table.submit; }
inline bool CanUnpack(const anyop_device& table) { return table.unpack || table.submit; }
// what: "add: x", or "" where no operator is called.
[[noreturn]] void RefuseStrides(const DeviceTarget& target, const std::string& what,
                                const DLTensor& t);

// Device to device: the elements of `from`, without gaps; and the other way.
void PackOnDevice(const DLTensor& from, void* to);
void UnpackOnDevice(const void* from, const DLTensor& to);
// Every element of contiguous memory is the host's *item.
void FillOnDevice(const DLTensor& to, const void* item);
// Puts a copy to the host's memory, without gaps, on the stream; it is there after a wait. If the
// device cannot pack, all bytes between the first element and the last are copied and waited for,
// and the host packs.
void StartCopyToHost(const DeviceTarget& from, const DLTensor& t, void* to);
// Between a device's tensor and the host's memory without gaps. Waits for the work on the stream,
// and throws its late error.
void CopyToHost(const DLTensor& from, void* to);
void CopyFromHost(const void* from, const DLTensor& to);

}  // namespace anyop
