// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "settings.h"

namespace virtual_device {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kWorthReturning = 1 << 20;  // to the system, once it is released

std::string Hex(std::uint64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

std::uint64_t PageBytes() {
  static const std::uint64_t bytes = std::uint64_t(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::uint64_t RoundUp(std::uint64_t n, std::uint64_t to) { return (n + to - 1) / to * to; }

}  // namespace

void Die(int device, const std::string& text) {
  std::fprintf(stderr, "%s:%d: %s\n", kWord, device, text.c_str());
  std::abort();
}

Memory::Memory(int device, std::uint64_t bytes, std::uint64_t slack_bytes)
    : device_(device), bytes_(RoundUp(bytes, PageBytes())), slack_bytes_(slack_bytes) {
  const int file = memfd_create(kWord, MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, off_t(bytes_)) != 0) Die(device, "there is no memory for it");
  const auto map = [&] {
    void* at = mmap(nullptr, bytes_, PROT_NONE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) Die(device, "there are no addresses for its memory");
    return static_cast<char*>(at);
  };
  seen_ = map(), opened_ = map();
  close(file);
}

void* Memory::Reserve(std::uint64_t bytes, std::string* why) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t page = PageBytes();
  std::uint64_t largest = 0;
  if (bytes <= bytes_) {
    const std::uint64_t aligned =
        RoundUp(std::max<std::uint64_t>(bytes, 1) + slack_bytes_, kAlignment);
    const std::uint64_t whole = RoundUp(aligned, page);
    char* at = seen_ + page;  // the first page is closed, too
    for (auto next = pieces_.begin();; ++next) {
      const char* end = next == pieces_.end() ? seen_ + bytes_ : next->second.pages;
      const std::uint64_t room = end > at + page ? std::uint64_t(end - at) - page : 0;
      if (room >= whole) {
        char* start = at + whole - aligned;
        pieces_[start] = {at, whole, bytes, false, false};
        used_ += whole;
        return start;
      }
      largest = std::max(largest, room);
      if (next == pieces_.end()) break;
      at = next->second.pages + next->second.whole_bytes + page;
    }
  }
  *why = "there is no room for " + std::to_string(bytes) +
         " bytes: " + std::to_string(bytes_ - used_) + " of " + std::to_string(bytes_) +
         " bytes are free" +
         (largest ? ", the largest piece of them has " + std::to_string(largest) : "") + ".";
  return nullptr;
}

void Memory::Open(void* memory) {
  const std::lock_guard lock(mutex_);
  Piece& piece = pieces_.at(static_cast<const char*>(memory));
  Protect(piece, PROT_READ | PROT_WRITE);
  std::memset(Opened(piece.pages), 0xff, piece.whole_bytes);
  piece.is_open = true;
}

bool Memory::Release(void* memory, std::string* why) {
  const std::lock_guard lock(mutex_);
  const auto found = pieces_.find(static_cast<const char*>(memory));
  if (found == pieces_.end()) {
    *why = Place(memory) + " is not what `allocate` gave, or it was released before.";
  } else if (found->second.is_released) {
    *why = Place(memory) + " was released before.";
  } else {
    found->second.is_released = true;
    return true;
  }
  return false;
}

void Memory::Close(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = pieces_.find(static_cast<const char*>(memory));
  const Piece& piece = found->second;
  if (!piece.is_open) {
    Die(device_, Place(memory) + " is released on a stream that did not wait for its allocation");
  }
  CheckMargins(found->first, piece);
  Protect(piece, PROT_NONE);
  if (piece.whole_bytes >= kWorthReturning) {
    madvise(Opened(piece.pages), piece.whole_bytes, MADV_REMOVE);
  }
  used_ -= piece.whole_bytes;
  pieces_.erase(found);
}

char* Memory::View(const void* address, std::uint64_t bytes, std::string* why) {
  const std::lock_guard lock(mutex_);
  if (OffsetSeen(address) < 0) {
    *why = Place(address) + " is not in this device's memory.";
    return nullptr;
  }
  const char* at = static_cast<const char*>(address);
  auto found = pieces_.upper_bound(at);
  if (found != pieces_.begin()) {
    const Piece& piece = (--found)->second;
    const std::uint64_t offset = std::uint64_t(at - found->first);
    if (offset <= piece.bytes && bytes <= piece.bytes - offset && !piece.is_released) {
      return Opened(at);
    }
    if (offset <= piece.bytes) {
      *why = piece.is_released
                 ? Place(address) + " lies in memory that was released."
                 : Place(address) + " has " + std::to_string(piece.bytes - offset) +
                       " bytes behind it, but must have " + std::to_string(bytes) + ".";
      return nullptr;
    }
  }
  *why = Place(address) + " lies in memory that is not allocated.";
  return nullptr;
}

bool Memory::Around(const void* address, const void** begin, std::uint64_t* bytes) {
  if (OffsetSeen(address) < 0) return false;
  const std::lock_guard lock(mutex_);
  const char* at = static_cast<const char*>(address);
  auto found = pieces_.upper_bound(at);
  if (found == pieces_.begin()) return false;
  const Piece& piece = (--found)->second;
  if (at >= found->first + piece.bytes || piece.is_released) return false;
  *begin = found->first, *bytes = piece.bytes;
  return true;
}

std::uint64_t Memory::FreeBytes() {
  const std::lock_guard lock(mutex_);
  return bytes_ - used_;
}

std::uint32_t Memory::Allocations() {
  const std::lock_guard lock(mutex_);
  return std::uint32_t(pieces_.size());
}

std::int64_t Memory::Offset(const char* base, const void* address) const {
  const std::uint64_t offset = std::uint64_t(static_cast<const char*>(address) - base);
  return offset < bytes_ ? std::int64_t(offset) : -1;
}

std::string Memory::Place(const void* address) const {
  const std::int64_t offset = OffsetSeen(address);
  if (offset >= 0) return "the memory at offset " + Hex(std::uint64_t(offset));
  return "the address " + Hex(reinterpret_cast<std::uint64_t>(address));
}

// Both ends of the pages still hold what they were filled with.
void Memory::CheckMargins(const char* start, const Piece& piece) const {
  const char *begin = Opened(piece.pages), *first = Opened(start);
  const char *last = first + piece.bytes, *end = begin + piece.whole_bytes;
  const auto is_kept = [](char c) { return c == char(0xff); };
  const std::string size = " (" + std::to_string(piece.bytes) + " bytes)";
  if (!std::all_of(begin, first, is_kept)) {
    Die(device_, "something was written before " + Place(start) + size);
  }
  if (!std::all_of(last, end, is_kept)) {
    Die(device_, "something was written behind " + Place(start) + size);
  }
}

void Memory::Protect(const Piece& piece, int rights) const {
  if (mprotect(Opened(piece.pages), piece.whole_bytes, rights) == 0) return;
  Die(device_, std::string("pages do not open or close: ") + std::strerror(errno) +
                   ". Is there less in use than vm.max_map_count allows?");
}

}  // namespace virtual_device
