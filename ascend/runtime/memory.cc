// SPDX-License-Identifier: Apache-2.0
// Memory of arguments, between pages that nobody may touch, and the allocator of local memories.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include "anyop_ascend/kernel_table.h"
#include "checked_block.h"
#include "global.h"
#include "launches.h"

namespace anyop_ascend {
namespace {

struct Mapping {
  unsigned char* whole;
  std::size_t bytes;
  unsigned char* behind;  // the page behind the last byte
};
struct Mappings {
  std::mutex mutex;
  std::map<void*, Mapping> all;
  std::atomic<bool> are_open{false};  // the pages behind can be read
};
std::uint64_t PageBytes() { return static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)); }
Mappings& TheMappings() {
  static auto* mappings = new Mappings;
  return *mappings;
}

}  // namespace

void OpenPagesBehind(bool open) {
  Mappings& mappings = TheMappings();
  if (mappings.are_open == open) return;
  const std::lock_guard lock(mappings.mutex);
  for (const auto& [data, mapping] : mappings.all)
    mprotect(mapping.behind, PageBytes(), open ? PROT_READ : PROT_NONE);
  mappings.are_open = open;
}

std::uint32_t Allocate(Memory memory, std::uint64_t bytes, bool poison, Site at) {
  Block& b = *block;
  const Soc& soc = *options.soc;
  if (!bytes) Report("ub-zero-buffer", at, "InitBuffer of 0 bytes");
  const std::uint64_t begin = b.allocated[memory], end = begin + bytes;
  const std::uint32_t reserved = memory == kUb ? soc.reserved : 0;
  if (end > soc.bytes[memory]) {
    const std::string text = Format("InitBuffer: %llu bytes at %llu do not fit: the memory has %u",
                                    static_cast<unsigned long long>(bytes),
                                    static_cast<unsigned long long>(begin), soc.bytes[memory]);
    End("ub-overflow", text.c_str(), at);
  }
  if (end > soc.bytes[memory] - reserved) {
    Report("ub-reserved", at,
           "InitBuffer: the buffer ends at %llu, in the last %u bytes of %u, which the framework "
           "uses in some calls",
           static_cast<unsigned long long>(end), reserved, soc.bytes[memory]);
  }
  b.allocated[memory] = static_cast<std::uint32_t>(end);
  const auto offset = static_cast<std::uint32_t>(memory * kMemorySpan + begin);
  if (poison) Poison(b.memory + offset, bytes);
  return offset;
}
std::uint32_t LocalBytes(Memory memory) { return options.soc->bytes[memory]; }
std::uint32_t NumberOfCores(bool of_vectors) {
  const NamedSoc& soc = NameOf(*options.soc);
  return of_vectors ? soc.vector_cores : soc.cube_cores;
}
const char* SocName() { return options.soc->name; }

}  // namespace anyop_ascend

using namespace anyop_ascend;

#pragma GCC visibility push(default)

void* anyop_ascend_allocate(uint64_t bytes) {
  const std::uint64_t page = PageBytes();
  const std::uint64_t rounded = (bytes + 31) / 32 * 32;
  const std::uint64_t body = rounded < page ? page : (rounded + page - 1) / page * page;
  if (body < bytes) return nullptr;
  void* whole = mmap(nullptr, body + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (whole == MAP_FAILED) return nullptr;
  auto* first = static_cast<unsigned char*>(whole) + page;
  if (mprotect(first, body, PROT_READ | PROT_WRITE)) {
    munmap(whole, body + 2 * page);
    return nullptr;
  }
  std::memset(first, 0xFF, body);
  void* data = first + (body - rounded);
  Mappings& mappings = TheMappings();
  const std::lock_guard lock(mappings.mutex);
  if (mappings.are_open) mprotect(first + body, page, PROT_READ);
  mappings.all[data] = {static_cast<unsigned char*>(whole), body + 2 * page, first + body};
  return data;
}
void anyop_ascend_release(void* data) {
  ForgetExtent(data);
  Mappings& mappings = TheMappings();
  const std::lock_guard lock(mappings.mutex);
  const auto found = mappings.all.find(data);
  if (found == mappings.all.end()) return;
  munmap(found->second.whole, found->second.bytes);
  mappings.all.erase(found);
}

#pragma GCC visibility pop
