// SPDX-License-Identifier: Apache-2.0
#include "platform/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "platform/crash.h"
#include "platform/error.h"

namespace anyop {
namespace {

constexpr int kMost = 4096;
constinit std::atomic<GuardedMemory*> g_guarded[kMost];

std::size_t Page() {
  static const std::size_t page = std::size_t(sysconf(_SC_PAGESIZE));
  return page;
}

int Enter(GuardedMemory* memory) {
  for (int i = 0; i < kMost; ++i) {
    GuardedMemory* none = nullptr;
    if (!g_guarded[i].load() && g_guarded[i].compare_exchange_strong(none, memory)) return i;
  }
  return -1;
}

// The distance from `at` to the nearest byte that is not `known`, in steps of `step`; n: all are.
std::size_t FindOther(const char* at, std::size_t n, std::ptrdiff_t step, unsigned char known) {
  for (std::size_t i = 0; i < n; ++i, at += step) {
    if (static_cast<unsigned char>(*at) != known) return i;
  }
  return n;
}

}  // namespace

// In a signal handler: the memory is in use by the thread that was stopped, or by its caller.
bool OpenGuard(std::uintptr_t address) {
  for (const std::atomic<GuardedMemory*>& entry : g_guarded) {
    GuardedMemory* m = entry.load();
    if (!m) continue;
    const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(m->map_);
    const std::uintptr_t end = begin + m->map_bytes_, page = Page();
    if (address < begin || address >= end) continue;
    const bool is_behind = address >= end - page;
    if (!is_behind && address >= begin + page) return false;
    std::uintptr_t none = 0;
    m->touched_.compare_exchange_strong(none, address);
    m->is_open_[is_behind] = true;
    void* const at = reinterpret_cast<void*>(is_behind ? end - page : begin);
    return mprotect(at, page, PROT_READ | PROT_WRITE) == 0;
  }
  return false;
}

GuardedMemory::GuardedMemory(std::size_t bytes, std::size_t alignment, unsigned char fill,
                             unsigned char around)
    : bytes_(bytes), around_(around) {
  const std::size_t page = Page();
  const std::size_t room = (bytes + alignment - 1) & ~(alignment - 1);
  const std::size_t pages = (room + page - 1) / page * page;
  map_bytes_ = pages + 2 * page;
  void* map = mmap(nullptr, map_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) {
    Fail(ANYOP_OUT_OF_MEMORY, "no memory for a guarded copy of " + std::to_string(bytes) +
                                  " bytes. Try without ANYOP_CHECK.");
  }
  map_ = static_cast<char*>(map);
  begin_ = map_ + page + pages - room;
  std::memset(map_, around, std::size_t(begin_ - map_));
  std::memset(begin_, fill, bytes);
  std::memset(begin_ + bytes, around, std::size_t(map_ + map_bytes_ - begin_) - bytes);
  slot_ = Enter(this);
  if (slot_ < 0) return;
  SetTouchHandler(&OpenGuard);
  mprotect(map_, page, PROT_NONE);
  mprotect(map_ + map_bytes_ - page, page, PROT_NONE);
}

GuardedMemory::~GuardedMemory() {
  if (slot_ >= 0) g_guarded[slot_] = nullptr;
  munmap(map_, map_bytes_);
}

bool GuardedMemory::FindChange(std::ptrdiff_t* at) const {
  const char* const end = begin_ + bytes_;
  const std::size_t closed_before = slot_ >= 0 && !is_open_[0] ? Page() : 0;
  const std::size_t closed_behind = slot_ >= 0 && !is_open_[1] ? Page() : 0;
  const std::size_t behind = std::size_t(map_ + map_bytes_ - end) - closed_behind;
  const std::size_t before = std::size_t(begin_ - map_) - closed_before;
  if (const std::size_t i = FindOther(end, behind, 1, around_); i < behind) {
    *at = std::ptrdiff_t(bytes_ + i);
    return true;
  }
  if (const std::size_t i = FindOther(begin_ - 1, before, -1, around_); i < before) {
    *at = -std::ptrdiff_t(i) - 1;
    return true;
  }
  return false;
}

bool GuardedMemory::FindTouch(std::ptrdiff_t* at) const {
  const std::uintptr_t touched = touched_.load();
  if (touched) *at = std::ptrdiff_t(touched - reinterpret_cast<std::uintptr_t>(begin_));
  return touched != 0;
}

}  // namespace anyop
