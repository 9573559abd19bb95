// SPDX-License-Identifier: Apache-2.0
// A fingerprint of memory: of other bytes it is another one, almost surely.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace anyop {

inline std::uint64_t HashBytes(const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  std::uint64_t hash = bytes;
  const auto add = [&](std::uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  };
  for (; bytes >= 8; at += 8, bytes -= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    add(word);
  }
  if (bytes) {
    std::uint64_t rest = 0;
    std::memcpy(&rest, at, bytes);
    add(rest);
  }
  return hash;
}

}  // namespace anyop
