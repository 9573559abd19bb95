// SPDX-License-Identifier: Apache-2.0
// The key of a call: 64-bit words without addresses, so that new memory needs no new plan. First
// the scope, then the head of each value (its tag, word and count), then numbers, tensors and
// lists. Heads and ranks tell how long each part is, so that no key is the beginning of another.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "anyop/value.h"
#include "runtime/plan/plan.h"
#include "runtime/registry/operator.h"

namespace anyop {

// How a tensor lies in memory, as far as plans depend on it.
enum StrideClass : std::uint64_t {
  kContiguous = 0,
  kRows = 1,       // the last dimension has stride 1, the others any stride from 0 up
  kScattered = 2,  // another last stride, or a negative one
  kRepeated = 4,   // added: a dimension of several entries has stride 0
};

std::uint64_t ClassOfStrides(const DLTensor& t);
inline std::uint64_t ClassOf(const DLTensor& t) {
  return t.strides ? ClassOfStrides(t) : std::uint64_t(kContiguous);
}

// Eight bytes at once: the rank and dtype, the device, or what a value is without its content.
inline std::uint64_t WordAt(const void* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}
inline std::uint64_t Head(const anyop_value& v) {
  static_assert(offsetof(anyop_value, i) == 8);
  return WordAt(&v);
}
inline std::uint64_t RankAndDType(const DLTensor& t) {
  return WordAt(reinterpret_cast<const char*>(&t) + offsetof(DLTensor, ndim));
}
inline std::uint64_t DeviceWord(const DLTensor& t) { return WordAt(&t.device); }

// Compares a tensor, below a list, with the words that the key has of it: rank and dtype, device,
// stride class, sizes. Returns where the key goes on, or null if it differs here.
inline const std::uint64_t* SameTensor(const std::uint64_t* key, const DLTensor& t) {
  if ((key[0] ^ RankAndDType(t)) | (key[1] ^ DeviceWord(t)) | (key[2] ^ ClassOf(t))) return nullptr;
  key += 3;
  const int n = t.ndim;
  const std::int64_t* shape = t.shape;
  std::uint64_t difference = 0;  // one branch for all dimensions
  for (int i = 0; i < n; ++i) difference |= key[i] ^ std::uint64_t(shape[i]);
  return difference ? nullptr : key + n;
}
const std::uint64_t* SameList(const std::uint64_t* key, const anyop_value& v);

// Whether the key of `frame` is `key`, without building it. Reads no word beyond the tensor in
// which they differ: what the key has behind it may be shorter than what the frame has.
[[gnu::always_inline]] inline bool SameKey(const std::uint64_t* key, const Operator& op,
                                           const anyop_value* frame, std::uint64_t scope) {
  const KeyParts& parts = op.key_parts;
  std::uint64_t difference = *key++ ^ scope;
  for (int i = 0; i < parts.n_values; ++i) difference |= *key++ ^ Head(frame[i]);
  for (int i = 0; i < parts.n_numbers; ++i) {
    difference |= *key++ ^ std::uint64_t(frame[parts.numbers[i]].i);
  }
  if (difference) return false;  // below, every value is of the kind that the key has
  for (int i = 0; i < parts.n_tensors; ++i) {
    const anyop_value& v = frame[parts.tensors[i]];
    if (v.tag != ANYOP_TENSOR) continue;
    key = SameTensor(key, *v.t);
    if (!key) return false;
  }
  for (int i = 0; i < parts.n_lists; ++i) {
    key = SameList(key, frame[parts.lists[i]]);
    if (!key) return false;
  }
  return true;
}

// A key under construction: on the stack while short, on the heap beyond.
class KeyBuilder {
 public:
  KeyBuilder(const Operator& op, const anyop_value* frame, std::uint64_t scope);
  const std::uint64_t* data() const { return words_; }
  std::uint32_t size() const { return size_; }
  std::uint64_t hash() const;

 private:
  void Push(std::uint64_t word) {
    if (size_ == capacity_) Grow();
    words_[size_++] = word;
  }
  void PushTensor(const DLTensor& t);
  void PushList(const anyop_value& v);
  void Grow();

  static constexpr std::uint32_t kInlineWords = 96;
  std::uint64_t inline_words_[kInlineWords];
  std::uint64_t* words_ = inline_words_;
  std::uint32_t size_ = 0, capacity_ = kInlineWords;
  std::unique_ptr<std::uint64_t[]> heap_;
};

// Decides how each part of the frame enters the key: fills key_parts. The operator's kernels and
// expressions must be there, as they say which numbers plans depend on.
void MakeKeyParts(Operator& op);

}  // namespace anyop
