// SPDX-License-Identifier: Apache-2.0
#include "graph/ir/layout.h"

namespace anyop {

Layout Viewed(const Layout& base, const GraphView& view, std::span<const std::int64_t> symbols) {
  if (view.kind == GraphView::kSlice) {
    return Sliced(base, view.a, view.begin.At(symbols), view.end.At(symbols));
  }
  if (view.kind == GraphView::kTranspose) return Transposed(base, view.a, view.b);
  std::int64_t shape[kMaxRank];
  const std::size_t rank = view.shape.size();
  for (std::size_t i = 0; i < rank; ++i) shape[i] = view.shape[i].At(symbols);
  return Reshaped(base, {shape, rank});
}

}  // namespace anyop
