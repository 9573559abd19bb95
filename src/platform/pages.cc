// SPDX-License-Identifier: Apache-2.0
#include "platform/pages.h"

#include <sys/mman.h>

namespace anyop {
namespace {

constexpr std::uint64_t kHugePage = 2 << 20, kPage = 4096;

constexpr std::uint64_t RoundUpTo(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) & ~(unit - 1);
}

void* Map(std::uint64_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

}  // namespace

std::uint64_t PageBytes(std::uint64_t bytes) {
  return RoundUpTo(bytes, bytes >= kHugePage ? kHugePage : kPage);
}

// Large memory begins at a multiple of a huge page, or its first part could not be one. mmap does
// not promise that, so a huge page more is mapped, and what lies before and behind is cut off.
void* MapPages(std::uint64_t bytes) {
  if (bytes < kHugePage) return Map(bytes);
  char* p = static_cast<char*>(Map(bytes + kHugePage));
  if (!p) return nullptr;
  char* begin = reinterpret_cast<char*>(RoundUpTo(reinterpret_cast<std::uint64_t>(p), kHugePage));
  if (begin > p) munmap(p, std::uint64_t(begin - p));
  munmap(begin + bytes, kHugePage - std::uint64_t(begin - p));
  madvise(begin, bytes, MADV_HUGEPAGE);  // a wish: where it is refused, small pages do
  return begin;
}

void UnmapPages(void* memory, std::uint64_t bytes) { munmap(memory, bytes); }

}  // namespace anyop
