// SPDX-License-Identifier: Apache-2.0
// Whether memory holds a list of tensors (anyop_ascend/tensor_list.h).
#include <string>

#include "fibers.h"
#include "global.h"

namespace anyop_ascend {
namespace {

constexpr std::uint64_t kWord = 8;

// Counts tensors from word to word, up to where the words are no descriptions of some.
class Reader {
 public:
  Reader(const void* data, Site at)
      : words_(static_cast<const std::uint64_t*>(data)),
        extent_(data ? FindExtent(data) : nullptr),
        at_(at) {}

  // Why it is no list; "" if it is one.
  std::string Count() {
    if (!words_) return "its address is null";
    std::uint64_t end = 0, rank = 0, word = 1;
    if (std::string why = Read(0, &end); !why.empty()) return why;
    if (end < kWord || end % kWord) {
      return Format("its first 8 bytes are no offset of addresses, but %llu",
                    static_cast<unsigned long long>(end));
    }
    for (; word < end / kWord; ++tensors_) {
      if (std::string why = Read(word, &rank); !why.empty()) return why;
      word += 1 + static_cast<std::uint32_t>(rank);
    }
    if (word != end / kWord) {
      return Format("its addresses begin at byte %llu, in the sizes of tensor %u",
                    static_cast<unsigned long long>(end), tensors_ - 1);
    }
    for (std::uint32_t i = 0; i < tensors_; ++i) {
      if (std::string why = Read(word + i, &rank); !why.empty()) return why;
    }
    bytes_ = (word + tensors_) * kWord;
    return "";
  }
  std::string name() const { return extent_ ? "'" + extent_->name + "'" : "the argument"; }
  std::uint32_t tensors() const { return tensors_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  // By S, as kernels read it. Returns why it cannot be read.
  std::string Read(std::uint64_t index, std::uint64_t* value) const {
    const std::uint64_t* word = words_ + index;
    if (extent_ && !Holds(word)) {
      return Format("its first words say that it has %llu bytes or more, but it has %llu",
                    static_cast<unsigned long long>((index + 1) * kWord),
                    static_cast<unsigned long long>(extent_->bytes));
    }
    ScalarReadGlobal(word, kWord, at_);
    *value = *word;
    return "";
  }
  bool Holds(const std::uint64_t* word) const {
    const auto* begin = reinterpret_cast<const unsigned char*>(word);
    return begin >= extent_->data && begin + kWord <= extent_->data + extent_->bytes;
  }

  const std::uint64_t* words_;
  const Extent* extent_;
  Site at_;
  std::uint32_t tensors_ = 0;
  std::uint64_t bytes_ = 0;
};

// Reports what is wrong. Returns whether the words are those of a list.
[[gnu::noinline]] bool IsTensorList(const void* data, std::uint32_t length, std::uint32_t tensors,
                                    Site at) {
  constexpr std::uint32_t kNotSaid = ~0u;
  Reader reader(data, at);
  const std::string why = reader.Count();
  if (!why.empty()) {
    Report("tensor-list", at,
           "%s is no list of tensors: %s. Try an argument such as 'list f16[8, 64], f16[4, 64]'",
           reader.name().c_str(), why.c_str());
    return false;
  }
  if (tensors != kNotSaid && tensors != reader.tensors()) {
    Report("tensor-list", at, "the list is said to have %u tensors, but has %u", tensors,
           reader.tensors());
  }
  if (length != kNotSaid && length < reader.bytes()) {
    Report("tensor-list", at, "the list is said to have %u bytes, but has %llu", length,
           static_cast<unsigned long long>(reader.bytes()));
  }
  return true;
}

}  // namespace

// The block ends here, where nothing has to be destroyed: the address sanitizer does not clean the
// stack of a block behind an exception, and would find what was on it later.
void CheckTensorList(const void* data, std::uint32_t length, std::uint32_t tensors, Site at) {
  if (!IsTensorList(data, length, tensors, at)) EndBlock();
}

}  // namespace anyop_ascend
