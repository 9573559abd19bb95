// SPDX-License-Identifier: Apache-2.0
// Whether memory holds a list of tensors (anyop_ascend/tensor_list.h).
#include <string>

#include "global.h"

namespace anyop_ascend {
namespace {

constexpr std::uint64_t kWord = 8;

[[noreturn]] void EndAsNoList(const Extent* extent, const std::string& why, Site at) {
  const std::string name = extent ? "'" + extent->name + "'" : std::string("the argument");
  End("tensor-list",
      Format("%s is no list of tensors: %s. Try an argument such as 'list f16[8, 64], f16[4, 64]'",
             name.c_str(), why.c_str())
          .c_str(),
      at);
}

// Counts tensors from word to word, and ends the block where the words are no descriptions of some.
class Reader {
 public:
  Reader(const void* data, Site at)
      : words_(static_cast<const std::uint64_t*>(data)),
        extent_(data ? FindExtent(data) : nullptr),
        at_(at) {}

  std::uint32_t Count() {
    if (!words_) EndAsNoList(nullptr, "its address is null", at_);
    const std::uint64_t end = Word(0);
    if (end < kWord || end % kWord) {
      EndAsNoList(extent_,
                  Format("its first 8 bytes are no offset of addresses, but %llu",
                         static_cast<unsigned long long>(end)),
                  at_);
    }
    std::uint32_t tensors = 0;
    std::uint64_t word = 1;
    for (; word < end / kWord; ++tensors) {
      word += 1 + static_cast<std::uint32_t>(Word(word));
    }
    if (word != end / kWord) {
      EndAsNoList(extent_,
                  Format("its addresses begin at byte %llu, in the sizes of tensor %u",
                         static_cast<unsigned long long>(end), tensors - 1),
                  at_);
    }
    for (std::uint32_t i = 0; i < tensors; ++i) Word(word + i);
    bytes_ = (word + tensors) * kWord;
    return tensors;
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  // Read by S, as kernels read it; the block ends where it is not in the argument.
  std::uint64_t Word(std::uint64_t index) const {
    const std::uint64_t* word = words_ + index;
    if (extent_ && !Holds(word)) {
      EndAsNoList(extent_,
                  Format("its first words say that it has %llu bytes or more, but it has %llu",
                         static_cast<unsigned long long>((index + 1) * kWord),
                         static_cast<unsigned long long>(extent_->bytes)),
                  at_);
    }
    ScalarReadGlobal(word, kWord, at_);
    return *word;
  }
  bool Holds(const std::uint64_t* word) const {
    const auto* begin = reinterpret_cast<const unsigned char*>(word);
    return begin >= extent_->data && begin + kWord <= extent_->data + extent_->bytes;
  }

  const std::uint64_t* words_;
  const Extent* extent_;
  Site at_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

void CheckTensorList(const void* data, std::uint32_t length, std::uint32_t tensors, Site at) {
  constexpr std::uint32_t kNotSaid = ~0u;
  Reader reader(data, at);
  const std::uint32_t there = reader.Count();
  if (tensors != kNotSaid && tensors != there) {
    Report("tensor-list", at, "the list is said to have %u tensors, but has %u", tensors, there);
  }
  if (length != kNotSaid && length < reader.bytes()) {
    Report("tensor-list", at, "the list is said to have %u bytes, but has %llu", length,
           static_cast<unsigned long long>(reader.bytes()));
  }
}

}  // namespace anyop_ascend
