// SPDX-License-Identifier: Apache-2.0
// How a value lies in its memory once every size is known.
#pragma once
#include <cstdint>
#include <span>

#include "graph/ir/graph.h"

namespace anyop {

struct Layout {
  DType dtype = DType::kF32;
  int rank = 0;
  std::int64_t shape[kMaxRank] = {};
  std::int64_t strides[kMaxRank] = {};  // in elements
  std::int64_t offset = 0;              // in bytes, from the beginning of the root's memory

  bool is_contiguous() const;
  std::int64_t bytes() const;  // of the elements
};

// Throws InvalidArgument for sizes below 0 or bytes beyond 63 bits.
Layout ContiguousLayout(DType dtype, std::span<const std::int64_t> shape);
Layout LayoutOf(const DLTensor& tensor);

// `base` seen through a view. Throws InvalidArgument where that does not fit the sizes.
Layout Viewed(const Layout& base, const GraphView& view, std::span<const std::int64_t> symbols);

// A tensor that points into `layout`, without strides where it is contiguous. data: of the root.
DLTensor TensorOf(const Layout& layout, void* data);

}  // namespace anyop
