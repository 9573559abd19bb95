// SPDX-License-Identifier: Apache-2.0
// The memory of one device.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace virtual_device {

// Ends the process: a defect of who uses the device, found where nobody can be told.
[[noreturn]] void Die(int device, const std::string& text);

// Pages are open, where streams look, only from the moment at which the stream that allocates
// reaches the allocation to that at which the stream that releases reaches the release. At least
// one closed page lies between neighbours, right behind the last byte (but for the slack and
// 64-byte alignment).
class Memory {
 public:
  // slack_bytes: behind each allocation, open with it. What is written there is found at the
  // release.
  Memory(int device, std::uint64_t bytes, std::uint64_t slack_bytes);

  // Null, and why, where there is no room.
  void* Reserve(std::uint64_t bytes, std::string* why);
  void Open(void* memory);  // filled with 0xff: NaN, -1
  // What Reserve gave is given back from now on: false, and why, if it was not there.
  bool Release(void* memory, std::string* why);
  void Close(void* memory);

  // Where the streams see an address of memory that has `bytes` behind it; null, and why, if it
  // has not, or is released.
  char* View(const void* address, std::uint64_t bytes, std::string* why);

  // The allocation that an address lies in, unless it is released: false where there is none.
  bool Around(const void* address, const void** begin, std::uint64_t* bytes);

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t FreeBytes();
  std::uint32_t Allocations();

  // For the handler of faults: no lock. The offset of an address, -1 if it is not in there.
  std::int64_t OffsetSeen(const void* address) const { return Offset(seen_, address); }
  std::int64_t OffsetOpened(const void* address) const { return Offset(opened_, address); }

 private:
  struct Piece {
    char* pages;
    std::uint64_t whole_bytes, bytes;
    bool is_open, is_released;
  };
  std::int64_t Offset(const char* base, const void* address) const;
  char* Opened(const char* seen) const { return opened_ + (seen - seen_); }
  std::string Place(const void* address) const;
  void CheckMargins(const char* start, const Piece& piece) const;
  void Protect(const Piece& piece, int rights) const;

  const int device_;
  const std::uint64_t bytes_, slack_bytes_;
  char *seen_, *opened_;
  std::mutex mutex_;
  std::uint64_t used_ = 0;
  std::map<const char*, Piece> pieces_;  // by their first byte
};

}  // namespace virtual_device
