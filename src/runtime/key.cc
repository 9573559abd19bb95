// SPDX-License-Identifier: Apache-2.0
#include "runtime/key.h"

#include <cstring>

namespace anyop {
void MakeKeyParts(Operator& op) {
  std::uint64_t used = op.contract->key_params;
  const Form& form = op.contract->forms[0];
  for (const OperatorKernel& k : op.kernels) {
    if (k.data.accepts) used = ~0ull;  // a predicate in C++ may read every number
    for (const std::string& v : k.plan_values) {
      const int p = form.param(v);
      if (p >= 0) used |= 1ull << p;
    }
  }
  for (int i = 0; i < op.n_params; ++i) {
    const ParamKind kind = form.params[std::size_t(i)].kind;
    KeyPart part{std::uint8_t(i), KeyPart::kSmall};
    if (kind == ParamKind::kTensor) part.kind = KeyPart::kTensor;
    if (kind == ParamKind::kTensors || IsNumberList(kind)) part.kind = KeyPart::kList;
    if (kind == ParamKind::kInt || kind == ParamKind::kFloat) {
      part.kind = used >> i & 1 ? KeyPart::kNumber : KeyPart::kFree;
    }
    op.key_parts.push_back(part);
  }
  for (int r = 0; r < op.n_results; ++r) {
    op.key_parts.push_back({std::uint8_t(op.n_params + r), KeyPart::kTensor});
  }
}

bool SameList(const std::uint64_t*& key, const anyop_value& v) {
  if (*key++ != ListHead(v)) return false;
  if (v.tag == ANYOP_TENSORS) {
    for (std::uint32_t i = 0; i < v.count; ++i) {
      if (!SameTensor(key, *v.ts[i])) return false;
    }
    return true;
  }
  if (v.tag != ANYOP_INTS && v.tag != ANYOP_FLOATS) return true;
  const bool same = std::memcmp(key, v.is, v.count * sizeof(std::int64_t)) == 0;
  key += v.count;
  return same;
}

KeyBuilder::KeyBuilder(const Operator& op, const anyop_value* frame, std::uint64_t scope) {
  Push(scope);
  for (const KeyPart part : op.key_parts) {
    const anyop_value& v = frame[part.index];
    switch (part.kind) {
      case KeyPart::kTensor:
        if (v.tag == ANYOP_TENSOR) {
          PushTensor(*v.t);
        } else {
          Push(v.tag);
        }
        break;
      case KeyPart::kNumber:
        Push(v.tag);
        Push(std::uint64_t(v.i));
        break;
      case KeyPart::kSmall:
        Push(SmallWord(v));
        break;
      case KeyPart::kFree:
        Push(v.tag);
        break;
      case KeyPart::kList:
        PushList(v);
        break;
    }
  }
}

void KeyBuilder::PushTensor(const DLTensor& t) {
  Push(Head(t));
  for (int i = 0; i < t.ndim; ++i) Push(std::uint64_t(t.shape[i]));
}

void KeyBuilder::PushList(const anyop_value& v) {
  Push(ListHead(v));
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

// Two lanes, because each step waits for a multiplication.
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
