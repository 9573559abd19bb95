// SPDX-License-Identifier: Apache-2.0
#include "anyop/op.h"

namespace anyop::ops {
namespace {

using Index = std::int64_t;

// Floats of y are f64.
void Store(const Tensor& y, Index row, Index x, double value) {
  if (y.type() == DType::kI8) {
    *y.at<std::int8_t>(row, x) = std::int8_t(value);
  } else if (y.type() == DType::kU8) {
    *y.at<std::uint8_t>(row, x) = std::uint8_t(value);
  } else {
    *y.at<double>(row, x) = value;
  }
}

void Run(const Context&, const Tensor& cache, const Tensor& table, const Tensor& seq_lens,
         const Tensor* starts, Index capacity, std::string_view layout, const Tensor& y,
         const Tensor& count) {
  const bool nz = layout == "NZ";
  const Index bs = cache.dim(nz ? 2 : 1);
  Index row = 0;
  for (Index i = 0; i < seq_lens.dim(0); ++i) {
    for (Index l = 0; l < ReadIndex(seq_lens, i); ++l, ++row) {
      const Index p = (starts ? ReadIndex(*starts, i) : 0) + l;
      const Index block = ReadIndex(table, i * table.stride(0) + p / bs);
      for (Index x = 0; x < y.dim(1); ++x) {
        const Index c0 = cache.dim(nz ? 3 : 2);
        const Index at = nz ? x / c0 * cache.stride(1) + p % bs * cache.stride(2) + x % c0
                            : p % bs * cache.stride(1) + x;
        Store(y, row, x, block < 0 ? 0 : Read(cache, block * cache.stride(0) + at));
      }
    }
  }
  *count.base<Index>() = row;
  for (; row < capacity; ++row) {
    for (Index x = 0; x < y.dim(1); ++x) Store(y, row, x, 0);
  }
}

}  // namespace

extern constinit const Reference paged_cache_load_reference{.op = "paged_cache_load",
                                                            .run = Bind<&Run>()};

}  // namespace anyop::ops
