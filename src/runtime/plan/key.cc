// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/key.h"

#include "platform/byte_count.h"

namespace anyop {

void MakeKeyParts(Operator& op) {
  std::uint64_t used = op.contract->key_params;
  const Form& form = op.contract->forms[0];
  for (const OperatorKernel& k : op.kernels) {
    if (k.data.accepts) used = ~0ull;  // a predicate in C++ may read every number
  }
  KeyParts& parts = op.key_parts;
  parts.n_values = std::uint8_t(op.n_params + op.n_results);
  const auto add = [](std::uint8_t* list, std::uint8_t& n, int i) { list[n++] = std::uint8_t(i); };
  for (int i = 0; i < op.n_params; ++i) {
    const ParamKind kind = form.params[std::size_t(i)].kind;
    if (kind == ParamKind::kWord) continue;  // its number is in the head
    if (kind == ParamKind::kTensor) {
      add(parts.tensors, parts.n_tensors, i);
    } else if (kind == ParamKind::kTensors || IsNumberList(kind)) {
      add(parts.lists, parts.n_lists, i);
    } else if ((kind != ParamKind::kInt && kind != ParamKind::kFloat) || (used >> i & 1)) {
      add(parts.numbers, parts.n_numbers, i);
    }
  }
  for (int r = 0; r < op.n_results; ++r) add(parts.tensors, parts.n_tensors, op.n_params + r);
}

// Keys are built before sizes are checked, so that any product of them may overflow.
std::uint64_t ClassOfStrides(const DLTensor& t) {
  std::int64_t run = 1;
  bool is_contiguous = true;
  std::uint64_t c = kRows;
  for (int i = t.ndim - 1; i >= 0; --i) {
    const std::int64_t n = t.shape[i], s = t.strides[i];
    if (n == 0) return kContiguous;  // an empty tensor may lie anyhow
    if (n == 1) continue;            // its stride is never used
    is_contiguous &= s == run;
    run = MultiplyBytes(run, n);
    if (s < 0 || (i == t.ndim - 1 && s != 1)) c = (c & kRepeated) | kScattered;
    if (s == 0) c |= kRepeated;
  }
  return is_contiguous ? std::uint64_t(kContiguous) : c;
}

const std::uint64_t* SameList(const std::uint64_t* key, const anyop_value& v) {
  if (v.tag == ANYOP_TENSORS) {
    for (std::uint32_t i = 0; i < v.count && key; ++i) key = SameTensor(key, *v.ts[i]);
    return key;
  }
  // An empty list may be a null pointer, which memcmp must not get.
  if ((v.tag != ANYOP_INTS && v.tag != ANYOP_FLOATS) || !v.count) return key;
  return std::memcmp(key, v.is, v.count * sizeof(std::int64_t)) ? nullptr : key + v.count;
}

KeyBuilder::KeyBuilder(const Operator& op, const anyop_value* frame, std::uint64_t scope) {
  const KeyParts& parts = op.key_parts;
  Push(scope);
  for (int i = 0; i < parts.n_values; ++i) Push(Head(frame[i]));
  for (int i = 0; i < parts.n_numbers; ++i) Push(std::uint64_t(frame[parts.numbers[i]].i));
  for (int i = 0; i < parts.n_tensors; ++i) {
    const anyop_value& v = frame[parts.tensors[i]];
    if (v.tag == ANYOP_TENSOR) PushTensor(*v.t);
  }
  for (int i = 0; i < parts.n_lists; ++i) PushList(frame[parts.lists[i]]);
}

void KeyBuilder::PushTensor(const DLTensor& t) {
  Push(RankAndDType(t));
  Push(DeviceWord(t));
  Push(ClassOf(t));
  for (int i = 0; i < t.ndim; ++i) Push(std::uint64_t(t.shape[i]));
}

void KeyBuilder::PushList(const anyop_value& v) {
  for (std::uint32_t i = 0; i < v.count; ++i) {
    if (v.tag == ANYOP_TENSORS) {
      PushTensor(*v.ts[i]);
    } else if (v.tag == ANYOP_INTS || v.tag == ANYOP_FLOATS) {
      Push(std::uint64_t(v.is[i]));
    }
  }
}

void KeyBuilder::Grow() {
  auto bigger = std::make_unique<std::uint64_t[]>(capacity_ * 2);
  std::memcpy(bigger.get(), words_, size_ * sizeof(std::uint64_t));
  heap_ = std::move(bigger);
  words_ = heap_.get();
  capacity_ *= 2;
}

// Two lanes side by side, because each step of a lane waits for its multiplication. kOdd is 2^64 by
// the golden ratio.
std::uint64_t KeyBuilder::hash() const {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15ull;
  std::uint64_t a = size_, b = kOdd;
  std::uint32_t i = 0;
  for (; i + 1 < size_; i += 2) {
    a = (a ^ words_[i]) * kOdd;
    b = (b ^ words_[i + 1]) * kOdd;
    a ^= a >> 29;
    b ^= b >> 29;
  }
  if (i < size_) a = (a ^ words_[i]) * kOdd;
  a = (a ^ (b >> 32 | b << 32)) * kOdd;
  return a ^ a >> 32;
}

}  // namespace anyop
