// SPDX-License-Identifier: Apache-2.0
// How a tensor lies in memory, and how it lies seen through a view: the same memory with other
// sizes and strides.
#pragma once
#include <cstdint>
#include <span>

#include "anyop/dtype.h"
#include "anyop/signature.h"
#include "anyop/tensor.h"

namespace anyop {

struct Layout {
  DType dtype = DType::kF32;
  int rank = 0;
  std::int64_t shape[kMaxRank] = {};
  std::int64_t strides[kMaxRank] = {};  // in elements
  std::int64_t offset = 0;              // in bytes, from the beginning of the memory

  bool is_contiguous() const;
  std::int64_t bytes() const;  // of the elements
};

// Throws InvalidArgument for sizes below 0 or bytes beyond 63 bits.
Layout ContiguousLayout(DType dtype, std::span<const std::int64_t> shape);
Layout LayoutOf(const DLTensor& tensor);

// Views of `base`; dim, a and b are dimensions of it. They throw InvalidArgument if the view does
// not lie within its sizes. Reshaped does so, too, where no strides give that shape without a copy.
Layout Sliced(const Layout& base, int dim, std::int64_t begin, std::int64_t end);
Layout Reshaped(const Layout& base, std::span<const std::int64_t> shape);
Layout Transposed(const Layout& base, int a, int b);

// A tensor that points into `layout`, on the host. A contiguous one has no strides, so that its
// class is known without reading any (ClassOf). data: where the memory begins.
DLTensor TensorOf(const Layout& layout, void* data);

}  // namespace anyop
