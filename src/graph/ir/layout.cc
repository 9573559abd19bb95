// SPDX-License-Identifier: Apache-2.0
#include "graph/ir/layout.h"

#include <algorithm>
#include <utility>

#include "platform/error.h"
#include "signature/expression.h"

namespace anyop {
namespace {

[[noreturn]] void Refuse(const std::string& text) { Fail(ANYOP_INVALID_ARGUMENT, text); }

std::string Text(const Layout& l) { return Show(TensorOf(l, nullptr)); }

void Slice(Layout* l, const GraphView& v, std::span<const std::int64_t> symbols) {
  const std::int64_t begin = v.begin.At(symbols), end = v.end.At(symbols);
  if (begin < 0 || end < begin || end > l->shape[v.a]) {
    Refuse("the slice " + std::to_string(begin) + " to " + std::to_string(end) + " of dimension " +
           std::to_string(v.a) + " does not lie within " + Text(*l) + ".");
  }
  l->offset += begin * l->strides[v.a] * Bytes(l->dtype);
  l->shape[v.a] = end - begin;
}

// A run of dimensions of `l` and a run of `shape` of as many elements, one after the other, must
// be one stride apart within the former.
bool Reshaped(const Layout& l, std::span<const std::int64_t> shape, std::int64_t* strides) {
  Layout from = l;
  from.rank = 0;
  for (int i = 0; i < l.rank; ++i) {
    if (l.shape[i] == 1) continue;
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
  for (; j < shape.size(); ++j) strides[j] = 1;  // sizes of 1 are left
  return true;
}

void Reshape(Layout* l, const GraphView& v, std::span<const std::int64_t> symbols) {
  std::int64_t shape[kMaxRank];
  const std::size_t rank = v.shape.size();
  for (std::size_t i = 0; i < rank; ++i) shape[i] = v.shape[i].At(symbols);
  Layout to = ContiguousLayout(l->dtype, {shape, rank});
  if (to.bytes() != l->bytes()) {
    Refuse(Text(*l) + " cannot be seen as " + Text(to) + ": it has another number of elements.");
  }
  if (to.bytes() && !l->is_contiguous() && !Reshaped(*l, {shape, rank}, to.strides)) {
    Refuse(Text(*l) + " cannot be seen as " + Text(to) +
           " without a copy, because its memory has gaps or another order.");
  }
  to.offset = l->offset;
  *l = to;
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
  std::int64_t stride = 1, bytes = Bytes(dtype);
  for (int i = l.rank - 1; i >= 0; --i) {
    if (l.shape[i] < 0 || __builtin_mul_overflow(bytes, l.shape[i], &bytes)) {
      Refuse("a tensor of the graph would be " + Text(l) +
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

Layout Viewed(const Layout& base, const GraphView& view, std::span<const std::int64_t> symbols) {
  Layout l = base;
  switch (view.kind) {
    case GraphView::kSlice:
      Slice(&l, view, symbols);
      break;
    case GraphView::kReshape:
      Reshape(&l, view, symbols);
      break;
    case GraphView::kTranspose:
      std::swap(l.shape[view.a], l.shape[view.b]);
      std::swap(l.strides[view.a], l.strides[view.b]);
      break;
  }
  return l;
}

DLTensor TensorOf(const Layout& layout, void* data) {
  DLTensor t{};
  t.data = static_cast<char*>(data) + layout.offset;
  t.device = {1, 0};
  t.ndim = layout.rank;
  t.dtype = ToDL(layout.dtype);
  t.shape = const_cast<std::int64_t*>(layout.shape);
  if (!layout.is_contiguous()) t.strides = const_cast<std::int64_t*>(layout.strides);
  return t;
}

}  // namespace anyop
