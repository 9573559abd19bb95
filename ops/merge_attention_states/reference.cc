// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <span>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Parts = std::span<const Tensor* const>;

double ReadLse(const Tensor& lse, std::int64_t head, std::int64_t token) {
  const double value = Read(lse, head * lse.stride(0) + token);
  return value == kInfinity ? -kInfinity : value;
}

void MergeRow(Parts outs, Parts lses, std::int64_t token, std::int64_t head, const Tensor& y,
              const Tensor& lse) {
  double largest = -kInfinity, sum = 0;
  for (const Tensor* part : lses) largest = std::fmax(largest, ReadLse(*part, head, token));
  double* row = y.at<double>(token, head);
  for (std::int64_t i = 0; i < y.dim(2); ++i) row[i] = 0;
  for (std::size_t a = 0; a < outs.size(); ++a) {
    const double part_lse = ReadLse(*lses[a], head, token);
    if (part_lse == -kInfinity) continue;
    const double weight = std::exp(part_lse - largest);
    sum += weight;
    const std::int64_t at = token * outs[a]->stride(0) + head * outs[a]->stride(1);
    for (std::int64_t i = 0; i < y.dim(2); ++i) row[i] += weight * Read(*outs[a], at + i);
  }
  for (std::int64_t i = 0; i < y.dim(2) && sum != 0; ++i) row[i] /= sum;
  *lse.at<double>(head, token) = sum == 0 ? -kInfinity : largest + std::log(sum);
}

void Run(const Context&, Parts outs, Parts lses, const Tensor& y, const Tensor& lse) {
  for (std::int64_t token = 0; token < y.dim(0); ++token) {
    for (std::int64_t head = 0; head < y.dim(1); ++head) {
      MergeRow(outs, lses, token, head, y, lse);
    }
  }
}

}  // namespace

extern constinit const Reference merge_attention_states_reference{.op = "merge_attention_states",
                                                                  .run = Bind<&Run>()};

}  // namespace anyop::ops
