// SPDX-License-Identifier: Apache-2.0
#include "local_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace anyop_ascend {

void* MapZeros(std::uint64_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  return data;
}

LocalMemory::LocalMemory()
    : data_(static_cast<unsigned char*>(MapZeros(kLocalBytes))),
      defined_(static_cast<std::uint64_t*>(MapZeros(kLocalBytes / 8))),
      cells_(static_cast<LocalCell*>(MapZeros(kLocalBytes / kCell * sizeof(LocalCell)))),
      granules_(
          static_cast<LocalGranule*>(MapZeros(kLocalBytes / kGranule * sizeof(LocalGranule)))),
      origins_(
          static_cast<std::uint32_t*>(MapZeros(kLocalBytes / kGranule * sizeof(std::uint32_t)))),
      bits_(static_cast<unsigned char*>(MapZeros(kLocalBytes))) {}

void LocalMemory::Split(std::uint32_t number) {
  LocalCell& split = cells_[number];
  if (split.is_split) return;
  split.is_split = true;
  std::fill_n(granules(number), kCell / kGranule, split.whole);
}

void LocalMemory::SetOrigin(std::uint32_t offset, std::uint64_t bytes, std::uint32_t place) {
  if (!bytes || (!place && !has_origins_)) return;
  has_origins_ = true;
  const std::uint64_t last = (offset + bytes - 1) / kGranule;
  std::fill(origins_ + offset / kGranule, origins_ + last + 1, place);
}

void LocalMemory::SetBits(std::uint32_t offset, unsigned bits) {
  has_bits_ = true;
  bits_[offset] = static_cast<unsigned char>(bits);
}
void LocalMemory::Undefine(std::uint32_t offset, std::uint64_t bytes) {
  defined_.Set(offset, bytes, false);
  if (has_bits_) std::fill_n(bits_ + offset, bytes, 0);
}

void LocalMemory::CopyMarks(std::uint32_t to, std::uint32_t from, std::uint64_t bytes) {
  defined_.Copy(to, from, bytes);
  if (has_bits_) std::memmove(bits_ + to, bits_ + from, bytes);
}

void LocalMemory::Use(std::uint32_t end) {
  std::uint32_t& used = used_[(end - 1) / kMemorySpan];
  used = std::max(used, (end - 1) % kMemorySpan + 1);
}

void LocalMemory::Forget() {
  for (std::uint32_t memory = 0; memory < kMemories; ++memory) {
    if (!used_[memory]) continue;
    const std::uint32_t begin = memory * kMemorySpan;
    Undefine(begin, used_[memory]);
    SetOrigin(begin, used_[memory], 0);
    std::fill_n(cells_ + begin / kCell, (used_[memory] + kCell - 1) / kCell, LocalCell());
    used_[memory] = 0;
  }
  has_origins_ = has_bits_ = false;
}

}  // namespace anyop_ascend
