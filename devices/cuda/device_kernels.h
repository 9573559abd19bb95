// SPDX-License-Identifier: Apache-2.0
// What the kernels of the device library itself (device.cu) are called with.
#pragma once
#include <cstdint>

namespace anyop::cuda {

inline constexpr int kMostDims = 8;

// Of one stream, in the card's memory; all 0 at first.
struct CheckWords {
  std::uint32_t failed;   // what kernels that say `stops` read
  std::uint32_t arrived;  // blocks of the check that runs
  std::uint64_t first;    // 2^64 - 1 - the place of the first entry that is wrong; 0: none is
};

// Of the same stream, in the host's memory, where the card writes it.
struct CheckRecord {
  std::uint32_t is_set;    // by the card, last; taken away by the host
  std::uint32_t is_taken;  // by the host: the next check may forget that one failed
  std::int32_t is_offsets;
  std::int32_t ndim;
  const char* name;
  const char* must;
  std::int64_t place, value, before;
  std::int64_t shape[kMostDims];
};

// A tensor of any strides.
struct Strided {
  std::int64_t count;
  std::int32_t ndim;
  std::int32_t is_contiguous;
  std::int64_t shape[kMostDims], strides[kMostDims];  // strides in elements
};

struct CheckCall {
  Strided of;
  CheckWords* words;
  CheckRecord* record;
  std::uint32_t* any;  // of the card: some record is set
  const void* data;
  const char* name;
  const char* must;
  std::int64_t limit;
  std::int32_t is_offsets;
  std::int32_t bytes;  // of an entry
  std::int32_t is_signed;
  std::int32_t shape_ndim;
  std::int64_t shape[kMostDims];  // as it is shown
};

struct CopyCall {  // pack and unpack
  Strided of;
  const void* from;
  void* to;
};

struct FillCall {
  unsigned char* to;
  std::uint64_t bytes;
  std::uint32_t item_bytes;
  unsigned char item[64];
};

}  // namespace anyop::cuda
