// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/copy.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "anyop/tensor.h"

namespace anyop {
namespace {

// Bytes of an element, of each dtype.
constexpr std::array<int, kDTypes> kDTypeWidths = [] {
  std::array<int, kDTypes> widths{};
  for (int d = 0; d < kDTypes; ++d) widths[std::size_t(d)] = Bytes(DType(d));
  return widths;
}();

// One row of n elements of kBytes each, `stride` elements apart on the strided side. A memcpy of a
// constant size is one load and one store, and needs no alignment.
template <int kBytes, bool kToPacked>
void CopyRow(char* strided, char* packed, std::int64_t n, std::int64_t stride) {
  for (std::int64_t i = 0; i < n; ++i) {
    char* s = strided + i * stride * kBytes;
    char* p = packed + i * kBytes;
    std::memcpy(kToPacked ? p : s, kToPacked ? s : p, kBytes);
  }
}

template <bool kToPacked>
void Copy(const DLTensor& tensor, char* packed) {
  const Tensor& t = static_cast<const Tensor&>(tensor);
  const std::int64_t bytes = Bytes(t.dtype), n = t.row_size(), rows = t.rows();
  char* base = BaseOf(t);
  if (t.size() == 0) return;  // [10^9, 0] has 10^9 rows, and none of them an element
  const std::int64_t stride = t.ndim ? t.stride(-1) : 1;
  for (std::int64_t r = 0; r < rows; ++r, packed += n * bytes) {
    char* strided = base + t.row_offset(r) * bytes;
    if (stride == 1) {
      std::memcpy(kToPacked ? packed : strided, kToPacked ? strided : packed,
                  std::size_t(n * bytes));
    } else if (bytes == 1) {
      CopyRow<1, kToPacked>(strided, packed, n, stride);
    } else if (bytes == 2) {
      CopyRow<2, kToPacked>(strided, packed, n, stride);
    } else if (bytes == 4) {
      CopyRow<4, kToPacked>(strided, packed, n, stride);
    } else if (bytes == 8) {
      CopyRow<8, kToPacked>(strided, packed, n, stride);
    } else {
      static_assert(std::ranges::max(kDTypeWidths) == 16);
      CopyRow<16, kToPacked>(strided, packed, n, stride);
    }
  }
}

}  // namespace

std::int64_t PackedBytes(const DLTensor& t) {
  return static_cast<const Tensor&>(t).size() * Bytes(t.dtype);
}

void CopyToPacked(const DLTensor& from, void* to) { Copy<true>(from, static_cast<char*>(to)); }

std::vector<char> Packed(const DLTensor& from) {
  std::vector<char> packed(std::size_t(PackedBytes(from)));
  CopyToPacked(from, packed.data());
  return packed;
}

void CopyFromPacked(const void* from, const DLTensor& to) {
  // In this direction Copy only reads the packed side.
  Copy<false>(to, static_cast<char*>(const_cast<void*>(from)));
}

}  // namespace anyop
