// SPDX-License-Identifier: Apache-2.0
// Memory that tells what was done around it: a page that nobody may touch begins right behind its
// last byte, another one lies before the page of its first byte, and the bytes between that page
// and the first are known.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace anyop {

// An access to a guard page does not end the process: it is noted, the page is opened, and the
// access goes on. At most some thousand objects have guard pages at a time; the others have known
// bytes on both sides alone.
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

  // A byte around the memory that is not as it was, from begin() on: the nearest to it.
  bool FindChange(std::ptrdiff_t* at) const;
  // The first access to a guard page, from begin() on.
  bool FindTouch(std::ptrdiff_t* at) const;

 private:
  friend bool OpenGuard(std::uintptr_t address);

  char* map_;
  std::size_t map_bytes_, bytes_;
  unsigned char around_;
  char* begin_;
  int slot_;                                        // of the table that the handler reads; -1: none
  std::atomic<std::uintptr_t> touched_{0};          // the first address
  std::atomic<bool> is_open_[2]{{false}, {false}};  // the page before, the page behind
};

}  // namespace anyop
