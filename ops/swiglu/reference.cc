// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

// Calls f(row, index of the gate, index of the up projection, index of y) for every pair of x.
template <class F>
void ForPairs(const Tensor& y, std::string_view order, F&& f) {
  const std::int64_t d = y.row_size();
  for (std::int64_t r = 0; r < y.rows(); ++r) {
    for (std::int64_t j = 0; j < d; ++j) {
      if (order == "halves") f(r, j, d + j, j);
      if (order == "interleaved") f(r, 2 * j, 2 * j + 1, j);
    }
  }
}

double Sigma(double z) { return 1 / (1 + std::exp(-z)); }

void Run(const Context&, const Tensor& x, std::optional<float> limit, double alpha, double beta,
         std::string_view order, const Tensor& y) {
  ForPairs(y, order, [&](std::int64_t r, std::int64_t at_g, std::int64_t at_u, std::int64_t j) {
    double g = Read(x, x.row_offset(r) + at_g), u = Read(x, x.row_offset(r) + at_u);
    if (limit && g > *limit) g = *limit;
    if (limit && u > *limit) u = *limit;
    if (limit && u < -*limit) u = -*limit;
    y.base<double>()[y.row_offset(r) + j] = g * Sigma(alpha * g) * (u + beta);
  });
}

void RunBackward(const Context&, const Tensor& dy, const Tensor& x, std::optional<float> limit,
                 double alpha, double beta, std::string_view order, const Tensor* dx) {
  if (!dx) return;
  ForPairs(dy, order, [&](std::int64_t r, std::int64_t at_g, std::int64_t at_u, std::int64_t j) {
    const double g = Read(x, x.row_offset(r) + at_g), u = Read(x, x.row_offset(r) + at_u);
    const double w = Read(dy, dy.row_offset(r) + j), most = limit.value_or(0);
    const double kept_g = limit && g > most ? most : g;
    const double kept_u = limit ? (u > most ? most : u < -most ? -most : u) : u;
    const double s = Sigma(alpha * kept_g), rest = Sigma(-alpha * kept_g);
    double* to = dx->base<double>() + dx->row_offset(r);
    to[at_g] = w * (kept_u + beta) * s * (1 + alpha * kept_g * rest);
    to[at_u] = w * kept_g * s;
    if (limit && !(g <= most)) to[at_g] = 0;
    if (limit && !(std::fabs(u) <= most)) to[at_u] = 0;
  });
}

}  // namespace

extern constinit const Reference swiglu_reference{.op = "swiglu", .run = Bind<&Run>()};
extern constinit const Reference swiglu_backward_reference{.op = "swiglu_backward",
                                                           .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
