// SPDX-License-Identifier: Apache-2.0
// The key of a call: 64-bit words, prefix-free, without addresses. Parts of a frame follow each
// other in a fixed order, and each part's first word says how many words it has.
#pragma once
#include <bit>
#include <cstdint>
#include <memory>

#include "anyop/abi.h"
#include "runtime/operator.h"
#include "runtime/plan.h"

namespace anyop {

// How a tensor lies in memory, as far as plans depend on it.
enum StrideClass : std::uint64_t {
  kContiguous = 0,
  kRows = 1,       // the last dimension has stride 1, the others any stride from 0 up
  kScattered = 2,  // another last stride, or a negative one
  kRepeated = 4,   // added: a dimension of several entries has stride 0
};

inline std::uint64_t ClassOf(const DLTensor& t) {
  if (!t.strides) return kContiguous;
  std::int64_t run = 1;
  bool is_contiguous = true;
  std::uint64_t c = kRows;
  for (int i = t.ndim - 1; i >= 0; --i) {
    const std::int64_t n = t.shape[i], s = t.strides[i];
    if (n == 0) return kContiguous;
    if (n == 1) continue;
    is_contiguous &= s == run;
    run *= n;
    if (s < 0 || (i == t.ndim - 1 && s != 1)) c = (c & kRepeated) | kScattered;
    if (s == 0) c |= kRepeated;
  }
  return is_contiguous ? std::uint64_t(kContiguous) : c;
}

// dtype, rank, stride class, device. Never 0, which stands for an absent tensor.
inline std::uint64_t HeadWithoutClass(const DLTensor& t) {
  static_assert(sizeof t.dtype == 4 && sizeof t.device == 8);
  return std::uint64_t(std::bit_cast<std::uint32_t>(t.dtype)) |
         std::uint64_t(std::uint8_t(t.ndim)) << 32 |
         std::uint64_t(std::uint8_t(t.device.device_type)) << 48 |
         std::uint64_t(std::uint8_t(t.device.device_id)) << 56;
}
constexpr int kClassShift = 40;
inline std::uint64_t Head(const DLTensor& t) {
  return HeadWithoutClass(t) | ClassOf(t) << kClassShift;
}
inline std::uint64_t ClassOfHead(std::uint64_t head) { return head >> kClassShift & 0xff; }

inline std::uint64_t ListHead(const anyop_value& v) {
  return std::uint64_t(v.tag) | std::uint64_t(v.count) << 32;
}
// Of a bool, word, dtype, or a number that no plan depends on.
inline std::uint64_t SmallWord(const anyop_value& v) {
  const std::uint64_t value = v.tag == ANYOP_WORD ? v.index : v.tag == ANYOP_NONE ? 0 : v.i;
  return std::uint64_t(v.tag) | value << 16;
}

inline bool SameTensor(const std::uint64_t*& key, const DLTensor& t) {
  if (*key++ != Head(t)) return false;
  std::uint64_t difference = 0;  // one branch for all dimensions
  for (int i = 0; i < t.ndim; ++i) difference |= *key++ ^ std::uint64_t(t.shape[i]);
  return difference == 0;
}
bool SameList(const std::uint64_t*& key, const anyop_value& v);

// Whether the key of `frame` is `key`, without building it. Reads no word
// beyond the tensor in which they differ.
inline bool SameKey(const std::uint64_t* key, const Operator& op, const anyop_value* frame,
                    std::uint64_t scope) {
  if (*key++ != scope) return false;
  for (const KeyPart part : op.key_parts) {
    const anyop_value& v = frame[part.index];
    switch (part.kind) {
      case KeyPart::kTensor:
        if (v.tag != ANYOP_TENSOR) {
          if (*key++ != v.tag) return false;
        } else if (!SameTensor(key, *v.t)) {
          return false;
        }
        break;
      case KeyPart::kNumber:
        if (key[0] != v.tag || key[1] != std::uint64_t(v.i)) return false;
        key += 2;
        break;
      case KeyPart::kSmall:
        if (*key++ != SmallWord(v)) return false;
        break;
      case KeyPart::kFree:
        if (*key++ != v.tag) return false;
        break;
      case KeyPart::kList:
        if (!SameList(key, v)) return false;
        break;
    }
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

// Decides how each part of the frame enters the key: fills key_parts.
void MakeKeyParts(Operator& op);

}  // namespace anyop
