// SPDX-License-Identifier: Apache-2.0
// Tensors: views of local and of global memory. Brackets count elements; a copy is another view.
#pragma once
#include <algorithm>
#include <utility>

#include "anyop_ascend/params.h"

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {

template <class T, char op>
struct AnyopTensorExpression;

template <class T>
class LocalTensor {
 public:
  using PrimType = T;

  // Stands at the begin of the unified buffer, as on the device; every use is a finding.
  LocalTensor() : at_(rt::block ? rt::block->memory : nullptr) {}
  LocalTensor(TPosition position, std::uint32_t address, std::uint32_t elements)
      : at_(rt::block->memory + MemoryOf(position) * rt::kMemorySpan + address),
        elements_(elements),
        rest_(elements * static_cast<std::uint32_t>(sizeof(T))),
        position_(position),
        is_allocated_(true) {}
  LocalTensor(unsigned char* at, std::uint32_t elements, std::uint32_t rest, TPosition position,
              bool is_allocated)
      : at_(at),
        elements_(elements),
        rest_(rest),
        position_(position),
        is_allocated_(is_allocated) {}
  LocalTensor(const LocalTensor&) = default;
  LocalTensor& operator=(const LocalTensor&) = default;
  // dst = a + b writes the elements of dst; a plain assignment makes dst another view.
  template <char op>
  const LocalTensor& operator=(const AnyopTensorExpression<T, op>& expression) const {
    expression.Write(*this);
    return *this;
  }

  T GetValue(std::uint32_t index, ANYOP_ASCEND_SITE) const {
    if (kChecked && !rt::ScalarRead(span(), Offset(index), site)) return T();
    T value;
    std::memcpy(&value, at_ + Offset(index), sizeof(T));
    return value;
  }
  template <class V>
  void SetValue(std::uint32_t index, V value, ANYOP_ASCEND_SITE) const {
    if (kChecked && !rt::ScalarWrite(span(), Offset(index), site)) return;
    const T stored = static_cast<T>(value);
    std::memcpy(at_ + Offset(index), &stored, sizeof(T));
  }

  class Element {
   public:
    Element(const LocalTensor& tensor, std::uint32_t index, rt::Site site)
        : tensor_(tensor), index_(index), site_(site) {}
    operator T() const { return tensor_.GetValue(index_, site_); }  // NOLINT
    template <class V>
    Element& operator=(V value) {
      tensor_.SetValue(index_, value, site_);
      return *this;
    }
    Element& operator=(const Element& other) { return *this = static_cast<T>(other); }

   private:
    const LocalTensor& tensor_;
    std::uint32_t index_;
    rt::Site site_;
  };
  Element operator()(std::uint32_t index, ANYOP_ASCEND_SITE) const { return {*this, index, site}; }

  LocalTensor operator[](std::uint32_t index) const {
    const std::int64_t offset = Offset(index);
    const std::int64_t rest = static_cast<std::int64_t>(rest_) - offset;
    return {at_ + offset, elements_ > index ? elements_ - index : 0,
            static_cast<std::uint32_t>(rest > 0 ? rest : 0), position_, is_allocated_};
  }
  template <class U>
  LocalTensor<U> ReinterpretCast() const {
    return {at_, static_cast<std::uint32_t>(elements_ * sizeof(T) / sizeof(U)), rest_, position_,
            is_allocated_};
  }

  std::uint32_t GetSize() const { return elements_; }
  std::uint32_t GetLength() const { return elements_ * static_cast<std::uint32_t>(sizeof(T)); }
  void SetSize(std::uint32_t elements) { elements_ = elements; }
  T* GetPhyAddr(std::uint32_t index = 0) const { return data() + index; }
  TPosition GetPosition() const { return position_; }
  void SetUserTag(int) {}
  int GetUserTag() const { return 0; }
  template <class Shape>
  void SetShapeInfo(const Shape&) {}
  void SetAddrWithOffset(LocalTensor& source, std::uint32_t index) { *this = source[index]; }

  T* data() const { return reinterpret_cast<T*>(at_); }
  unsigned char* bytes() const { return at_; }
  bool is_allocated() const { return is_allocated_; }
  rt::Span span() const { return {at_, rest_, is_allocated_, sizeof(T)}; }

 private:
  // Indices below 2^31 count on, others back: addresses wrap on the device.
  static std::int64_t Offset(std::uint32_t index) {
    return static_cast<std::int64_t>(static_cast<std::int32_t>(index)) *
           static_cast<std::int64_t>(sizeof(T));
  }

  unsigned char* at_;
  std::uint32_t elements_ = 0;
  std::uint32_t rest_ = 0;  // bytes up to the end of the buffer
  TPosition position_ = TPosition::VECCALC;
  bool is_allocated_ = false;
};

template <class T>
class GlobalTensor {
 public:
  using PrimType = T;

  void SetGlobalBuffer(T* data, std::uint64_t elements) {
    data_ = data;
    elements_ = elements;
  }
  void SetGlobalBuffer(T* data) { SetGlobalBuffer(data, 0); }
  GlobalTensor operator[](std::uint64_t index) const {
    GlobalTensor rest;
    rest.SetGlobalBuffer(data_ + index, elements_ > index ? elements_ - index : 0);
    return rest;
  }

  T GetValue(std::uint64_t index, ANYOP_ASCEND_SITE) const {
    if (kChecked && !rt::ScalarReadGlobal(data_ + index, sizeof(T), site)) return T();
    return data_[index];
  }
  template <class V>
  void SetValue(std::uint64_t index, V value, ANYOP_ASCEND_SITE) const {
    if (kChecked && !rt::ScalarWriteGlobal(data_ + index, sizeof(T), site)) return;
    data_[index] = static_cast<T>(value);
  }

  class Element {
   public:
    Element(const GlobalTensor& tensor, std::uint64_t index, rt::Site site)
        : tensor_(tensor), index_(index), site_(site) {}
    operator T() const { return tensor_.GetValue(index_, site_); }  // NOLINT
    template <class V>
    Element& operator=(V value) {
      tensor_.SetValue(index_, value, site_);
      return *this;
    }

   private:
    const GlobalTensor& tensor_;
    std::uint64_t index_;
    rt::Site site_;
  };
  Element operator()(std::uint64_t index, ANYOP_ASCEND_SITE) const { return {*this, index, site}; }

  T* GetPhyAddr(std::uint64_t index = 0) const { return data_ + index; }
  std::uint64_t GetSize() const { return elements_; }
  template <class Shape>
  void SetShapeInfo(const Shape&) {}
  void SetL2CacheHint(CacheMode) {}
  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
  std::uint64_t elements_ = 0;
};

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC
