// SPDX-License-Identifier: Apache-2.0
// Whether two tensors share memory. Results may share it with arguments only as the signature says
// (`y: T[n] over x`), so that every call is checked before anything is written.
#pragma once
#include <cstdint>
#include <utility>

#include "anyop/abi.h"

namespace anyop {

// The bytes from the first to the last element; begin == end for an empty tensor.
struct Extent {
  std::uintptr_t begin, end;
};
Extent ExtentOf(const DLTensor& t);

// Of tensors of one place; a device's addresses may be numbers that the host has, too.
inline bool Meet(Extent a, Extent b) { return a.begin < b.end && b.begin < a.end; }

// Its device and number, as a whole number.
inline std::uint64_t PlaceOf(DLDevice device) {
  return std::uint64_t(device.device_type) << 32 | std::uint32_t(device.device_id);
}
inline std::uint64_t PlaceOf(const DLTensor& t) { return PlaceOf(t.device); }

// The bytes of a tensor in the memory where it lies, of a device or the host's. Those of one graph
// may lie on several: a planned tensor is on the host beside others elsewhere.
struct MemoryRange {
  explicit MemoryRange(const DLTensor& t) : place(PlaceOf(t)), extent(ExtentOf(t)) {}
  bool is_empty() const { return extent.begin == extent.end; }
  // Sorts those of one place together, by where they begin.
  bool operator<(const MemoryRange& other) const {
    return std::pair(place, extent.begin) < std::pair(other.place, other.extent.begin);
  }
  std::uint64_t place;
  Extent extent;
};

// False only if no byte belongs to both.
bool MayShareMemory(const DLTensor& a, const DLTensor& b);

// The same elements in the same order: address, shape, strides and element size, none repeated.
bool IsSameMemory(const DLTensor& a, const DLTensor& b);

// Whether two indices of the tensor may be the same memory, as with stride 0.
bool MayMeetItself(const DLTensor& t);

}  // namespace anyop
