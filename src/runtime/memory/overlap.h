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

// Whether two extents share a byte. Only for tensors of one place: a device's addresses may be
// numbers that the host has as well.
inline bool Meet(Extent a, Extent b) { return a.begin < b.end && b.begin < a.end; }

// A device's type and number as one integer, to compare and to sort by. device_id is signed:
// without the cast a negative one would overwrite the type.
inline std::uint64_t PlaceOf(DLDevice device) {
  return std::uint64_t(device.device_type) << 32 | std::uint32_t(device.device_id);
}
inline std::uint64_t PlaceOf(const DLTensor& t) { return PlaceOf(t.device); }

// The bytes of a tensor and the place where they lie. The tensors of one graph may lie in several
// places: planned ones are on the host when the others are on a device.
struct MemoryRange {
  explicit MemoryRange(const DLTensor& t) : place(PlaceOf(t)), extent(ExtentOf(t)) {}
  bool is_empty() const { return extent.begin == extent.end; }
  // Ranges of one place come together, in the order of their first bytes.
  bool operator<(const MemoryRange& other) const {
    return std::pair(place, extent.begin) < std::pair(other.place, other.extent.begin);
  }
  std::uint64_t place;
  Extent extent;
};

// False only if no byte belongs to both. True may be wrong: decided is whether the extents meet,
// and whether runs of bytes do if both tensors have theirs at one distance, as columns of a matrix.
bool MayShareMemory(const DLTensor& a, const DLTensor& b);

// The same elements in the same order: address, shape, strides and element size are equal. False
// with a stride of 0, because writing one element would change others.
bool IsSameMemory(const DLTensor& a, const DLTensor& b);

// Whether two indices of the tensor may be the same memory, as with stride 0. False is certain.
bool MayMeetItself(const DLTensor& t);

}  // namespace anyop
