// SPDX-License-Identifier: Apache-2.0
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& index, std::int64_t n, bool, const Tensor& y) {
  for (std::int64_t i = 0; i < index.size(); ++i) {
    const std::int64_t r = i / index.row_size(), k = i % index.row_size();
    y.base<std::int64_t>()[y.row_offset(r) + k] =
        (ReadIndex(index, index.row_offset(r) + k) + n) % n;
  }
}

}  // namespace

extern constinit const Reference wrap_index_reference{.op = "wrap_index", .run = Bind<&Run>()};

}  // namespace anyop::ops
