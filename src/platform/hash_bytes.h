// SPDX-License-Identifier: Apache-2.0
// A fingerprint of memory. Different bytes almost surely have different ones; surely, if they
// differ within one aligned word of 8 bytes only. Saved graphs hold it (graph/saved/manifest.h), so
// it never changes:
//
//   k = 0x9e3779b97f4a7c15; h[i] = i + 1 for i in 0 .. 3
//   mix(h, w): h = (h ^ w) * k; h ^= h >> 29        // in 64 bits
//   of the bytes, filled up with zeros to blocks of four little-endian words w[0] .. w[3]:
//     mix(h[i], w[i]) for each block
//   hash = the number of bytes; mix(hash, h[i]) for i in 0 .. 3
//
// Four words at once, because a multiplication takes longer than the memory gives a word: it reads
// memory as fast as one core can.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace anyop {

static_assert(std::endian::native == std::endian::little, "words are little-endian");

inline std::uint64_t HashBytes(const void* data, std::size_t bytes) {
  const auto mix = [](std::uint64_t hash, std::uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
  };
  const char* at = static_cast<const char*>(data);
  std::uint64_t lanes[4] = {1, 2, 3, 4}, words[4];
  const auto add = [&] {
    for (int i = 0; i < 4; ++i) lanes[i] = mix(lanes[i], words[i]);
  };
  std::size_t left = bytes;
  for (; left >= sizeof words; at += sizeof words, left -= sizeof words) {
    std::memcpy(words, at, sizeof words);
    add();
  }
  if (left) {
    std::memset(words, 0, sizeof words);
    std::memcpy(words, at, left);
    add();
  }
  std::uint64_t hash = bytes;
  for (const std::uint64_t lane : lanes) hash = mix(hash, lane);
  return hash;
}

// The hash as files hold it: 16 hexadecimal digits.
inline std::string DigestOf(std::uint64_t hash) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace anyop
