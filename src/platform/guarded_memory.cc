// SPDX-License-Identifier: Apache-2.0
#include "platform/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "platform/crash.h"
#include "platform/error.h"

namespace anyop {
namespace {

constexpr int kMost = 4096;
constexpr std::size_t kZoneBytes = std::size_t(1) << 20;
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

// Mappings of objects that have been destroyed, to be used again.
struct Kept {
  static constexpr std::size_t kMostMappings = 128, kMostBytes = 2 * kZoneBytes + (256 << 10);
  struct Mapping {
    char* map;
    std::size_t bytes;
  };
  std::mutex mutex;
  bool is_used = false;
  std::vector<Mapping> mappings;

  char* Take(std::size_t bytes) {
    const std::lock_guard lock(mutex);
    const auto found = std::ranges::find(mappings, bytes, &Mapping::bytes);
    if (found == mappings.end()) return nullptr;
    char* const map = found->map;
    *found = mappings.back();
    mappings.pop_back();
    return map;
  }
  bool Put(char* map, std::size_t bytes) {
    const std::lock_guard lock(mutex);
    if (!is_used || bytes > kMostBytes || mappings.size() == kMostMappings) return false;
    mappings.push_back({map, bytes});
    return true;
  }
};
Kept& TheKept() {
  static auto& kept = *new Kept;  // never destroyed: late destructors may free guarded memory
  return kept;
}

// Maps pages between two zones, or returns MAP_FAILED. Zones have no rights and take no memory.
void* MapGuarded(std::size_t pages_bytes) {
  const std::size_t bytes = pages_bytes + 2 * kZoneBytes;
  if (char* const kept = TheKept().Take(bytes)) return kept;
  void* const map =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED || pages_bytes == 0) return map;
  if (mprotect(static_cast<char*>(map) + kZoneBytes, pages_bytes, PROT_READ | PROT_WRITE) == 0) {
    return map;
  }
  munmap(map, bytes);
  return MAP_FAILED;
}

// The distance from `at`, in steps of `step`, to the nearest byte that is not `known`; n if all
// are. Bytes that equal their neighbours are all alike: memcmp tells that at once in the usual
// case.
std::size_t FindOther(const char* at, std::size_t n, std::ptrdiff_t step, unsigned char known) {
  if (n == 0) return n;
  const char* const lowest = step > 0 ? at : at - (n - 1);
  const bool are_alike = std::memcmp(lowest, lowest + 1, n - 1) == 0;
  if (are_alike && static_cast<unsigned char>(*at) == known) return n;
  for (std::size_t i = 0; i < n; ++i, at += step) {
    if (static_cast<unsigned char>(*at) != known) return i;
  }
  return n;
}

}  // namespace

void KeepGuardedMappings() {
  const std::lock_guard lock(TheKept().mutex);
  TheKept().is_used = true;
}

// Runs in a signal handler. The object cannot end meanwhile: its memory is in use by the thread
// that was stopped, or by the caller of that thread's region.
bool OpenGuard(std::uintptr_t address) {
  for (const std::atomic<GuardedMemory*>& entry : g_guarded) {
    GuardedMemory* m = entry.load();
    if (!m) continue;
    const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(m->map_);
    if (address < begin || address >= begin + m->map_bytes_) continue;
    char* const page = m->map_ + (address - begin) / Page() * Page();
    const bool is_behind = page >= m->pages_end_;
    if (!is_behind && page >= m->pages_) return false;
    if (mprotect(page, Page(), PROT_READ | PROT_WRITE)) return false;
    std::uintptr_t none = 0;
    m->touched_.compare_exchange_strong(none, address);
    // Only the first page of each zone is remembered; pages that are opened later go unchecked.
    char* closed = nullptr;
    if (m->open_[is_behind].compare_exchange_strong(closed, page)) {
      std::memset(page, m->around_, Page());
    }
    return true;
  }
  return false;
}

GuardedMemory::GuardedMemory(std::size_t bytes, std::size_t alignment, unsigned char fill,
                             unsigned char around)
    : bytes_(bytes), around_(around) {
  const std::size_t page = Page();
  const std::size_t room = (bytes + alignment - 1) & ~(alignment - 1);
  const std::size_t pages = (room + page - 1) / page * page;
  map_bytes_ = pages + 2 * kZoneBytes;
  void* map = MapGuarded(pages);
  if (map == MAP_FAILED) {
    Fail(ANYOP_OUT_OF_MEMORY, "no memory for a guarded copy of " + std::to_string(bytes) +
                                  " bytes. Try without ANYOP_CHECK.");
  }
  map_ = static_cast<char*>(map);
  pages_ = map_ + kZoneBytes;
  pages_end_ = pages_ + pages;
  begin_ = pages_end_ - room;
  std::memset(pages_, around, std::size_t(begin_ - pages_));
  std::memset(begin_, fill, bytes);
  std::memset(begin_ + bytes, around, room - bytes);
  slot_ = Enter(this);
  if (slot_ >= 0) {
    SetTouchHandler(&OpenGuard);
    return;
  }
  // The handler does not know this object, so that a touch of its zones would end the process: the
  // pages next to the memory are opened at once, and only their bytes are compared.
  for (char* const near : {pages_ - page, pages_end_}) {
    mprotect(near, page, PROT_READ | PROT_WRITE);
    std::memset(near, around, page);
    open_[near == pages_end_] = near;
  }
}

GuardedMemory::~GuardedMemory() {
  if (slot_ >= 0) g_guarded[slot_] = nullptr;
  const bool is_unharmed = slot_ >= 0 && !open_[0] && !open_[1];
  if (!is_unharmed || !TheKept().Put(map_, map_bytes_)) munmap(map_, map_bytes_);
}

bool GuardedMemory::FindChange(std::ptrdiff_t* at) const {
  const auto found = [&](const char* from, std::size_t n, std::ptrdiff_t step) {
    const std::size_t i = FindOther(from, n, step, around_);
    if (i < n) *at = from + std::ptrdiff_t(i) * step - begin_;
    return i < n;
  };
  const char *const end = begin_ + bytes_, *const before = open_[0], *const behind = open_[1];
  return found(end, std::size_t(pages_end_ - end), 1) || (behind && found(behind, Page(), 1)) ||
         found(begin_ - 1, std::size_t(begin_ - pages_), -1) ||
         (before && found(before + Page() - 1, Page(), -1));
}

bool GuardedMemory::FindTouch(std::ptrdiff_t* at) const {
  const std::uintptr_t touched = touched_.load();
  if (touched) *at = std::ptrdiff_t(touched - reinterpret_cast<std::uintptr_t>(begin_));
  return touched != 0;
}

}  // namespace anyop
