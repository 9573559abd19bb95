// SPDX-License-Identifier: Apache-2.0
#include "anyop/op.h"

namespace anyop::ops {
namespace {

std::int64_t AxisOf(std::int64_t j, std::span<const std::int64_t> sections,
                    std::string_view order) {
  const auto axes = std::int64_t(sections.size());
  if (order == "interleaved") {
    for (std::int64_t m = 1; m < axes; ++m) {
      if (j % axes == m && j < axes * sections[std::size_t(m)]) return m;
    }
    return 0;
  }
  std::int64_t m = 0;
  for (std::int64_t end = sections[0]; j >= end; end += sections[std::size_t(m)]) ++m;
  return m;
}

void Run(const Context&, const Tensor& positions, const Tensor& query, const Tensor* key,
         const Tensor& table, std::span<const std::int64_t> sections, std::string_view order,
         std::string_view style) {
  const std::int64_t q = table.dim(1) / 2;
  for (const Tensor* x : {&query, key}) {
    for (std::int64_t i = 0; x && i < x->dim(0); ++i) {
      for (std::int64_t j = 0; j < q; ++j) {
        const std::int64_t axis = AxisOf(j, sections, order);
        const std::int64_t row = ReadIndex(positions, axis * positions.stride(0) + i);
        if (row < 0) continue;
        const double c = Read(table, row * table.stride(0) + j);
        const double s = Read(table, row * table.stride(0) + q + j);
        for (std::int64_t h = 0; h < x->dim(1); ++h) {
          double& a = *x->at<double>(i, h, style == "neox" ? j : 2 * j);
          double& b = *x->at<double>(i, h, style == "neox" ? q + j : 2 * j + 1);
          const double old_a = a, old_b = b;
          a = old_a * c - old_b * s;
          b = old_b * c + old_a * s;
        }
      }
    }
  }
}

}  // namespace

extern constinit const Reference mrope_reference{.op = "mrope", .run = Bind<&Run>()};

}  // namespace anyop::ops
