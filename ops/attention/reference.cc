// SPDX-License-Identifier: Apache-2.0
#include "ops/common/attention/reference.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& query, const Tensor& key, const Tensor& value,
         const Tensor& query_start_loc, const Tensor& key_start_loc, std::optional<double> scale,
         bool causal, std::int64_t window_left, std::int64_t window_right, double softcap,
         const Tensor* alibi_slopes, const Tensor* sinks, bool return_lse, const Tensor& y,
         const Tensor& lse) {
  const reference::Options options{scale,        causal, window_left, window_right, softcap,
                                   alibi_slopes, sinks,  nullptr,     nullptr};
  const std::int64_t group = query.dim(1) / key.dim(1);
  const Tensor* lse_or_null = return_lse ? &lse : nullptr;
  std::int64_t token = 0;
  for (std::int64_t s = 0; s + 1 < query_start_loc.dim(0); ++s) {
    const std::int64_t queries = ReadIndex(query_start_loc, s + 1) - token;
    const std::int64_t begin = ReadIndex(key_start_loc, s);
    const std::int64_t keys = ReadIndex(key_start_loc, s + 1) - begin;
    for (std::int64_t i = 0; i < queries; ++i, ++token) {
      for (std::int64_t h = 0; h < query.dim(1); ++h) {
        const auto offset = [&](const Tensor& rows, std::int64_t j) {
          return (begin + j) * rows.stride(0) + h / group * rows.stride(1);
        };
        reference::AttendRow(
            options, {token, h, i + keys - queries, keys}, query, key, value,
            [&](std::int64_t j) { return offset(key, j); },
            [&](std::int64_t j) { return offset(value, j); }, y, lse_or_null);
      }
    }
  }
  for (; token < query.dim(0); ++token) reference::AttendPadding(token, y, lse_or_null);
}

}  // namespace

extern constinit const Reference attention_reference{.op = "attention", .run = Bind<&Run>()};

}  // namespace anyop::ops
