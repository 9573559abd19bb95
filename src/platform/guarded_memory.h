// SPDX-License-Identifier: Apache-2.0
// Memory that tells what was done around it: a zone that nobody may touch begins right behind its
// last byte, another one ends before the page of its first byte, and the bytes between that page
// and the first are known.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace anyop {

// Opens the page of a zone that holds the address, and returns true; false if no zone holds it. The
// signal handler of crash.h calls it.
bool OpenGuard(std::uintptr_t address);

// Mappings that are small and unharmed are used again: for tests, which make a million of them. A
// pointer that a kernel keeps beyond its call is not found by a fault then.
void KeepGuardedMappings();

// A zone is a mebibyte of addresses without memory. An access to it does not end the process: the
// address is noted, its page is opened, and the access goes on. At most 4096 objects have zones at
// a time; the others have only a page of known bytes on both sides.
class GuardedMemory {
 public:
  // Filled with `fill`. alignment: of begin(), a power of two; what it leaves between the end and
  // the guard page is filled with `around`, as is all else. Throws OutOfMemory.
  GuardedMemory(std::size_t bytes, std::size_t alignment, unsigned char fill, unsigned char around);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  char* begin() const { return begin_; }
  std::size_t bytes() const { return bytes_; }

  // Finds a byte around the memory that has changed, and its distance from begin(). The bytes next
  // to the memory come first; of a zone, only the page that was opened first is searched.
  bool FindChange(std::ptrdiff_t* at) const;
  // Finds the first access to a zone, as a distance from begin().
  bool FindTouch(std::ptrdiff_t* at) const;

 private:
  friend bool OpenGuard(std::uintptr_t address);

  char* map_;
  std::size_t map_bytes_, bytes_;
  unsigned char around_;
  char *begin_, *pages_, *pages_end_;       // of the memory, and of the whole pages that hold it
  int slot_;                                // of the table that the handler reads; -1: none
  std::atomic<std::uintptr_t> touched_{0};  // the first address
  std::atomic<char*> open_[2]{{nullptr}, {nullptr}};  // a page of the zone before, and behind
};

}  // namespace anyop
