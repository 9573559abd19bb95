// SPDX-License-Identifier: Apache-2.0
#include "optest/array.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>
#include <type_traits>

#include "anyop/storage.h"
#include "anyop/value.h"

namespace anyop::optest {
namespace {

template <class E>
E Saturate(double value) {
  if (std::isnan(value)) return E(0);
  // The upper limit of i64 is not a double: the next one above it is.
  const double high = std::ldexp(1.0, std::numeric_limits<E>::digits);
  if (value >= high) return std::numeric_limits<E>::max();
  if (value <= double(std::numeric_limits<E>::min())) return std::numeric_limits<E>::min();
  return E(value);
}

// The nearest value of f8e8m0: from the middle up, but for the two least.
double ToPowerOfTwo(double value) {
  if (value < 0) return std::nan("");
  if (value == 0) return 0x1p-127;
  const int power = std::ilogb(value);
  const double rest = std::ldexp(value, -power);
  const int nearest = power + (power < -126 ? rest > 1.5 : rest >= 1.5);
  return std::ldexp(1.0, std::clamp(nearest, -127, 127));
}

// The slices along a dimension: `outer` groups of n neighbours of so many bytes.
struct Slices {
  Slices(const Array& array, int dim) : n(array.dim(dim)), bytes(Bytes(array.dtype())) {
    const auto& shape = array.shape();
    for (int i = 0; i < int(shape.size()); ++i) {
      if (i < dim) outer *= shape[std::size_t(i)];
      if (i > dim) bytes *= shape[std::size_t(i)];
    }
  }
  std::int64_t outer = 1, n, bytes;
};

}  // namespace

double Largest(DType dtype) {
  return IsFloat(dtype) ? FormatOf(dtype).largest : VisitStorage(dtype, [](auto zero) -> double {
    using E = decltype(zero);
    if constexpr (std::is_arithmetic_v<E>) return double(std::numeric_limits<E>::max());
    return 0;
  });
}

double RoundTo(DType dtype, double value) {
  if (!IsFloat(dtype)) {
    return VisitStorage(dtype, [&](auto zero) -> double {
      using E = decltype(zero);
      if constexpr (std::is_same_v<E, bool>) return value != 0;
      if constexpr (std::is_integral_v<E>) return double(Saturate<E>(value));
      return value;
    });
  }
  if (dtype == DType::kF64 || !std::isfinite(value)) return value;
  if (dtype == DType::kF32) return double(float(value));
  if (dtype == DType::kF8E8M0) return ToPowerOfTwo(value);
  const FloatFormat f = FormatOf(dtype);
  const double ulp = Ulp(dtype, value);
  const double rounded = std::nearbyint(value / ulp) * ulp;
  if (std::fabs(rounded) <= f.largest) return rounded;
  const bool saturates = Bytes(dtype) == 1;
  return std::copysign(saturates ? f.largest : HUGE_VAL, value);
}

Array::Array(DType dtype, std::vector<std::int64_t> shape)
    : dtype_(dtype), shape_(std::move(shape)), size_(1) {
  for (const std::int64_t n : shape_) size_ *= n;
  bytes_.resize(std::size_t(size_ * Bytes(dtype)));
}

Array::Array(DType dtype, std::vector<std::int64_t> shape, std::initializer_list<double> values)
    : Array(dtype, std::move(shape)) {
  if (values.size() != 1 && std::int64_t(values.size()) != size_) {
    throw std::invalid_argument("an Array of " + std::to_string(size_) + " elements was given " +
                                std::to_string(values.size()) + " values.");
  }
  for (std::int64_t i = 0; i < size_; ++i) Set(i, values.begin()[values.size() == 1 ? 0 : i]);
}

std::int64_t Array::rows() const {
  std::int64_t n = 1;
  for (std::size_t i = 0; i + 1 < shape_.size(); ++i) n *= shape_[i];
  return n;
}

double Array::Get(std::int64_t i) const {
  return VisitStorage(dtype_, [&](auto zero) -> double {
    using E = decltype(zero);
    const E value = data<E>()[i];
    return ToDouble(value);
  });
}

void Array::Set(std::int64_t i, double value) {
  VisitStorage(dtype_, [&](auto zero) {
    using E = decltype(zero);
    E& element = data<E>()[i];
    if constexpr (requires { element.re; }) {
      element = {decltype(element.re)(value), 0};
    } else if constexpr (std::is_same_v<E, F4E2M1X2>) {
      element = {Saturate<std::uint8_t>(value)};
    } else if constexpr (std::is_class_v<E>) {
      element = E(float(RoundTo(dtype_, value)));
    } else if constexpr (std::is_floating_point_v<E>) {
      element = E(value);
    } else if constexpr (std::is_same_v<E, bool>) {
      element = value != 0;
    } else {
      element = Saturate<E>(value);
    }
  });
}

std::int64_t Array::GetInt(std::int64_t i) const {
  return VisitStorage(dtype_, [&](auto zero) -> std::int64_t {
    using E = decltype(zero);
    if constexpr (std::is_integral_v<E>) return std::int64_t(data<E>()[i]);
    return std::int64_t(Get(i));
  });
}

void Array::SetInt(std::int64_t i, std::int64_t value) {
  if (dtype_ == DType::kI64) {
    data<std::int64_t>()[i] = value;
  } else {
    Set(i, double(value));
  }
}

std::int64_t Array::Offset(const std::vector<std::int64_t>& index) const {
  if (index.size() != shape_.size()) throw std::out_of_range("wrong number of indices");
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (index[i] < 0 || index[i] >= shape_[i]) throw std::out_of_range("index outside " + Text());
    offset = offset * shape_[i] + index[i];
  }
  return offset;
}

void Array::Repeat(int dim) {
  const Slices s(*this, dim);
  if (!s.bytes) return;  // no memory, perhaps no address
  for (std::int64_t i = 0; i < s.outer; ++i) {
    unsigned char* first = bytes_.data() + i * s.n * s.bytes;
    for (std::int64_t k = 1; k < s.n; ++k) {
      std::memcpy(first + k * s.bytes, first, std::size_t(s.bytes));
    }
  }
}

std::string Array::IndexText(std::int64_t i) const {
  std::string text;
  for (std::size_t k = shape_.size(); k-- > 0;) {
    text = std::to_string(i % shape_[k]) + (text.empty() ? "" : ", ") + text;
    i /= shape_[k];
  }
  return "[" + text + "]";
}

std::vector<bool> RepeatedDims(const Array& array) {
  std::vector<bool> repeated;
  for (int dim = 0; dim + 1 < int(array.shape().size()); ++dim) {
    const Slices s(array, dim);
    bool all_alike = s.n > 1 && s.bytes > 0;
    for (std::int64_t i = 0; all_alike && i < s.outer; ++i) {
      const char* first = array.data<char>() + i * s.n * s.bytes;
      // Each slice is the one before it.
      all_alike = std::memcmp(first, first + s.bytes, std::size_t((s.n - 1) * s.bytes)) == 0;
    }
    repeated.push_back(all_alike);
  }
  return repeated;
}

DLTensor Array::View() {
  return MakeDLTensor(bytes_.data(), kHostDevice, ToDL(dtype_), int(shape_.size()), shape_.data());
}

std::string Array::Text() const {
  std::string text(Name(dtype_));
  text += "[";
  for (std::size_t i = 0; i < shape_.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(shape_[i]);
  }
  return text + "]";
}

std::ostream& operator<<(std::ostream& out, const Array& array) {
  constexpr std::int64_t kShown = 16;
  out << array.Text() << " {";
  for (std::int64_t i = 0; i < std::min(array.size(), kShown); ++i) {
    out << (i ? ", " : "") << array.Get(i);
  }
  return out << (array.size() > kShown ? ", ...}" : "}");
}

}  // namespace anyop::optest
