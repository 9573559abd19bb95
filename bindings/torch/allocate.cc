// SPDX-License-Identifier: Apache-2.0
#include "allocate.h"

#include <c10/core/CPUAllocator.h>

#include <cstdlib>
#include <cstring>

namespace anyop::torch_host {
namespace {

constexpr std::size_t kAlign = 64;             // torch's
constexpr std::size_t kSmall = 1024 - kAlign;  // glibc keeps blocks up to this in a list per thread

// Where malloc's block begins stands in front of the aligned data.
void FreeSmall(void* data) {
  void* block;
  std::memcpy(&block, static_cast<char*>(data) - sizeof block, sizeof block);
  std::free(block);
}

// torch's own aligns by posix_memalign, which takes a small block from malloc's lists and splits
// it: 60 ns more than malloc. Larger ones are torch's, and so is all that a profiler counts.
class SmallAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (!bytes || bytes > kSmall || c10::memoryProfilingEnabled()) {
      return c10::GetCPUAllocator()->allocate(bytes);
    }
    void* block = std::malloc(bytes + kAlign);
    if (!block) return c10::GetCPUAllocator()->allocate(bytes);  // which says what is missing
    const auto address = reinterpret_cast<std::uintptr_t>(block);
    char* data = reinterpret_cast<char*>((address + kAlign) & ~std::uintptr_t(kAlign - 1));
    static_assert(alignof(std::max_align_t) >= sizeof block, "room in front of the data");
    std::memcpy(data - sizeof block, &block, sizeof block);
    return {data, data, &FreeSmall, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

at::TensorBase EmptyCpu(at::IntArrayRef sizes, at::ScalarType dtype, bool is_pinned,
                        std::optional<at::MemoryFormat> format) {
  static auto& allocator = *new SmallAllocator;  // storages may outlive everything
  if (is_pinned) return at::detail::empty_cpu(sizes, dtype, is_pinned, format);
  constexpr c10::DispatchKeySet kCpu(c10::DispatchKey::CPU);
  return at::detail::empty_generic(sizes, &allocator, kCpu, dtype, format);
}

}  // namespace anyop::torch_host
