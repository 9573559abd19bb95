// SPDX-License-Identifier: Apache-2.0
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Cross(const Context&, const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& e,
           const Tensor& y) {
  for (std::int64_t r = 0; r < a.rows(); ++r) {
    for (std::int64_t j = 0; j < a.row_size(); ++j) {
      const auto at = [&](const Tensor& x) { return Read(x, x.row_offset(r) + j); };
      y.row<double>(r)[std::size_t(j)] = at(a) * at(b) - at(c) * at(e);
    }
  }
}

void Centred(const Context&, const Tensor& x, const Tensor& y) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const std::int64_t d = x.row_size(), at = x.row_offset(r);
    double sum = 0;
    for (std::int64_t j = 0; j < d; ++j) sum += Read(x, at + j);
    for (std::int64_t j = 0; j < d; ++j) {
      y.row<double>(r)[std::size_t(j)] = Read(x, at + j) - sum / double(d);
    }
  }
}

}  // namespace

extern constinit const Reference cross_reference{.op = "cross", .run = Bind<&Cross>()};
extern constinit const Reference cross_off_reference{.op = "cross_off", .run = Bind<&Cross>()};
extern constinit const Reference centred_reference{.op = "centred", .run = Bind<&Centred>()};
extern constinit const Reference centred_off_reference{.op = "centred_off",
                                                       .run = Bind<&Centred>()};

}  // namespace anyop::ops
