// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/layout.h"

#include <algorithm>
#include <utility>

#include "anyop/value.h"
#include "platform/error.h"
#include "signature/expression.h"

namespace anyop {
namespace {

[[noreturn]] void Refuse(const std::string& text) { Fail(ANYOP_INVALID_ARGUMENT, text); }

std::string Text(const Layout& l) { return Show(TensorOf(l, nullptr)); }

// Strides by which the memory of `l` has this shape; false if there are none. Both shapes are cut
// into the shortest runs of dimensions that have equally many elements. Within a run, the
// dimensions of `l` must follow each other without a gap. No size is 0.
bool FindStrides(const Layout& l, std::span<const std::int64_t> shape, std::int64_t* strides) {
  Layout from = l;
  from.rank = 0;
  for (int i = 0; i < l.rank; ++i) {
    if (l.shape[i] == 1) continue;  // its stride is never used, and may be any
    from.shape[from.rank] = l.shape[i];
    from.strides[from.rank++] = l.strides[i];
  }
  int i = 0;
  std::size_t j = 0;
  while (i < from.rank) {
    std::int64_t have = from.shape[i], want = 1;
    const int first = i++;
    const std::size_t begin = j;
    while (j < shape.size() && (want < have || want == 1)) {
      want *= shape[j++];
      while (have < want && i < from.rank) have *= from.shape[i++];
    }
    for (int k = first; k + 1 < i; ++k) {
      if (from.strides[k] != from.shape[k + 1] * from.strides[k + 1]) return false;
    }
    std::int64_t stride = from.strides[i - 1];
    for (std::size_t k = j; k-- > begin;) {
      strides[k] = stride;
      stride *= shape[k];
    }
  }
  for (; j < shape.size(); ++j) strides[j] = 1;  // sizes of 1 alone are left
  return true;
}

}  // namespace

bool Layout::is_contiguous() const {
  std::int64_t stride = 1;
  for (int i = rank - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != stride) return false;
    stride *= shape[i];
  }
  return true;
}

std::int64_t Layout::bytes() const {
  std::int64_t n = Bytes(dtype);
  for (int i = 0; i < rank; ++i) n *= shape[i];
  return n;
}

Layout ContiguousLayout(DType dtype, std::span<const std::int64_t> shape) {
  Layout l;
  l.dtype = dtype;
  l.rank = int(shape.size());
  std::copy(shape.begin(), shape.end(), l.shape);
  std::int64_t stride = 1, bytes = Bytes(dtype);  // `stride` is less than `bytes`: it fits as well
  for (int i = l.rank - 1; i >= 0; --i) {
    if (l.shape[i] < 0 || __builtin_mul_overflow(bytes, l.shape[i], &bytes)) {
      Refuse("a tensor would be " + Text(l) +
             ", but no size can be negative and the bytes must be below 2^63.");
    }
    l.strides[i] = stride;
    stride *= l.shape[i];
  }
  return l;
}

Layout LayoutOf(const DLTensor& tensor) {
  const auto& t = static_cast<const Tensor&>(tensor);
  Layout l = ContiguousLayout(t.type(), {t.shape, std::size_t(t.ndim)});
  if (t.strides) std::copy_n(t.strides, t.ndim, l.strides);
  return l;
}

Layout Sliced(const Layout& base, int dim, std::int64_t begin, std::int64_t end) {
  if (begin < 0 || end < begin || end > base.shape[dim]) {
    Refuse("the slice " + std::to_string(begin) + " to " + std::to_string(end) + " of dimension " +
           std::to_string(dim) + " does not lie within " + Text(base) + ".");
  }
  Layout l = base;
  l.offset += begin * l.strides[dim] * Bytes(l.dtype);
  l.shape[dim] = end - begin;
  return l;
}

Layout Reshaped(const Layout& base, std::span<const std::int64_t> shape) {
  Layout to = ContiguousLayout(base.dtype, shape);
  if (to.bytes() != base.bytes()) {
    Refuse(Text(base) + " cannot be seen as " + Text(to) + ": it has another number of elements.");
  }
  // Without elements any strides do.
  if (to.bytes() && !base.is_contiguous() && !FindStrides(base, shape, to.strides)) {
    Refuse(Text(base) + " cannot be seen as " + Text(to) +
           " without a copy, because its memory has gaps or another order.");
  }
  to.offset = base.offset;
  return to;
}

Layout Transposed(const Layout& base, int a, int b) {
  Layout l = base;
  std::swap(l.shape[a], l.shape[b]);
  std::swap(l.strides[a], l.strides[b]);
  return l;
}

DLTensor TensorOf(const Layout& layout, void* data) {
  return MakeDLTensor(static_cast<char*>(data) + layout.offset, kHostDevice, ToDL(layout.dtype),
                      layout.rank, layout.shape, layout.is_contiguous() ? nullptr : layout.strides);
}

}  // namespace anyop
