// SPDX-License-Identifier: Apache-2.0
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& ids, const Tensor& weight, std::int64_t, const Tensor& y) {
  const std::int64_t n = ids.row_size();
  for (std::int64_t i = 0; i < ids.size(); ++i) {
    const std::int64_t id = ReadIndex(ids, ids.row_offset(i / n) + i % n);
    for (std::int64_t j = 0; j < weight.dim(1); ++j) {
      y.row<double>(i)[std::size_t(j)] =
          id < 0 ? 0 : Read(weight, id * weight.stride(0) + j * weight.stride(1));
    }
  }
}

void RunBackward(const Context&, const Tensor& dy, const Tensor& ids, const Tensor& weight,
                 std::int64_t padding_idx, const Tensor* dweight) {
  const std::int64_t n = ids.row_size(), d = weight.dim(1);
  for (std::int64_t r = 0; dweight && r < weight.dim(0); ++r) {
    for (std::int64_t j = 0; j < d; ++j) dweight->row<double>(r)[std::size_t(j)] = 0;
  }
  for (std::int64_t i = 0; dweight && i < ids.size(); ++i) {
    const std::int64_t id = ReadIndex(ids, ids.row_offset(i / n) + i % n);
    if (id < 0 || id == padding_idx) continue;
    for (std::int64_t j = 0; j < d; ++j) {
      dweight->row<double>(id)[std::size_t(j)] += Read(dy, dy.row_offset(i) + j);
    }
  }
}

}  // namespace

extern constinit const Reference embedding_reference{.op = "embedding", .run = Bind<&Run>()};
extern constinit const Reference embedding_backward_reference{.op = "embedding_backward",
                                                              .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
