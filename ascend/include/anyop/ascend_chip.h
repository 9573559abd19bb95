// SPDX-License-Identifier: Apache-2.0
// What launches on a chip need of the vendor's runtime (acl/acl.h), where ANYOP_ASCEND_CHIP says
// that the vendor's compiler reads anyop/ascend.h. Written from public documentation; never
// compiled by that compiler, and never run on a chip.
#pragma once
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "acl/acl.h"

#ifndef ANYOP_ASCEND_BUILD
#define ANYOP_ASCEND_BUILD on_chip
#endif

namespace anyop::ascend {
inline namespace ANYOP_ASCEND_BUILD {
namespace detail {

inline void Must(int code, const char* function) {
  if (code)
    throw std::runtime_error(std::string(function) + " gives " + std::to_string(code) + ".");
}

inline std::uint32_t VectorCoresOfChip() {
  static const std::uint32_t cores = [] {
    std::int32_t device = 0;
    std::int64_t value = 0;
    Must(aclrtGetDevice(&device), "aclrtGetDevice");
    Must(aclrtGetDeviceInfo(std::uint32_t(device), ACL_DEV_ATTR_VECTOR_CORE_NUM, &value),
         "aclrtGetDeviceInfo");
    return std::uint32_t(value);
  }();
  return cores;
}

// Bytes of the unified buffer, of the chips of dav-2201; others have more.
inline constexpr std::uint32_t kUbBytes = 192 * 1024;

// Structs of tiling data in the chip's memory, until the launch that reads them is over.
class TilingData {
 public:
  explicit TilingData(void* stream) : stream_(stream) {}
  ~TilingData() {
    if (n_) aclrtSynchronizeStream(stream_);
    while (n_) aclrtFree(copies_[--n_]);
  }
  TilingData(const TilingData&) = delete;
  TilingData& operator=(const TilingData&) = delete;

  void* Put(const void* data, std::size_t bytes) {
    if (n_ == kMost) throw std::runtime_error("a launch has more than 8 structs of tiling data.");
    void* to = nullptr;
    Must(aclrtMalloc(&to, bytes, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
    copies_[n_++] = to;
    Must(aclrtMemcpy(to, bytes, data, bytes, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy");
    return to;
  }

 private:
  static constexpr int kMost = 8;
  void* stream_;
  void* copies_[kMost];
  int n_ = 0;
};

}  // namespace detail
}  // namespace ANYOP_ASCEND_BUILD
}  // namespace anyop::ascend
