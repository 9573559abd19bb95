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
    const Split split(begin, count);
    const std::uint64_t* words = words_ + begin / 64;
    if ((words[0] & split.head) != split.head) return false;
    std::uint64_t all = ~0ull;
    for (std::uint64_t i = 1; i < split.tail_word; ++i) all &= words[i];
    return !~all && (!split.tail || (words[split.tail_word] & split.tail) == split.tail);
  }
  void Set(std::uint64_t begin, std::uint64_t count, bool value) {
    const Split split(begin, count);
    std::uint64_t* words = words_ + begin / 64;
    const auto set = [&](std::uint64_t& word, std::uint64_t mask) {
      word = value ? word | mask : word & ~mask;
    };
    set(words[0], split.head);
    if (split.tail_word > 1) std::fill_n(words + 1, split.tail_word - 1, value ? ~0ull : 0);
    if (split.tail) set(words[split.tail_word], split.tail);
  }
  void Copy(std::uint64_t to, std::uint64_t from, std::uint64_t count) {
    if (All(from, count)) return Set(to, count, true);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t at = to > from ? count - 1 - i : i;  // ranges may overlap
      Set(to + at, 1, All(from + at, 1));
    }
  }

 private:
  // Bits of the first word, whole words behind it, bits of the last word.
  struct Split {
    std::uint64_t head;
    std::uint64_t tail = 0;
    std::uint64_t tail_word = 1;  // counted from the first

    Split(std::uint64_t begin, std::uint64_t count) {
      const std::uint64_t low = begin % 64, in_head = std::min(count, 64 - low);
      head = in_head == 64 ? ~0ull : ((1ull << in_head) - 1) << low;
      tail_word = 1 + (count - in_head) / 64;
      tail = (1ull << (count - in_head) % 64) - 1;
    }
  };

  std::uint64_t* words_ = nullptr;
};

}  // namespace anyop_ascend
