// SPDX-License-Identifier: Apache-2.0
// A bit for each byte of a memory, read and written a word at a time.
#pragma once
#include <algorithm>
#include <cstdint>

namespace anyop_ascend {

class Bits {
 public:
  Bits() = default;
  explicit Bits(std::uint64_t* words) : words_(words) {}

  bool All(std::uint64_t begin, std::uint64_t count) const {
    bool all = true;
    Each(begin, count, [&](std::uint64_t word, std::uint64_t mask) {
      all = (words_[word] & mask) == mask;
      return all;
    });
    return all;
  }
  void Set(std::uint64_t begin, std::uint64_t count, bool value) {
    Each(begin, count, [&](std::uint64_t word, std::uint64_t mask) {
      words_[word] = value ? words_[word] | mask : words_[word] & ~mask;
      return true;
    });
  }
  void Copy(std::uint64_t to, std::uint64_t from, std::uint64_t count) {
    if (All(from, count)) return Set(to, count, true);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t at = to > from ? count - 1 - i : i;  // ranges may overlap
      Set(to + at, 1, All(from + at, 1));
    }
  }

 private:
  template <class F>
  static void Each(std::uint64_t begin, std::uint64_t count, F visit) {
    const std::uint64_t end = begin + count;
    while (begin < end) {
      const std::uint64_t next = std::min(end, (begin / 64 + 1) * 64), bits = next - begin;
      const std::uint64_t mask = bits == 64 ? ~0ull : ((1ull << bits) - 1) << begin % 64;
      if (!visit(begin / 64, mask)) return;
      begin = next;
    }
  }

  std::uint64_t* words_ = nullptr;
};

}  // namespace anyop_ascend
