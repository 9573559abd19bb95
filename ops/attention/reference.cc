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

// What one row adds to the gradients; D as in the formula, lse of the row.
struct RowGradient {
  const reference::Options& options;
  const Tensor &dy, &query, &key, &value, &y;
  const Tensor *dlse, *dquery, *dkey, *dvalue, *dsinks;

  // key_begin: the token of key 0.
  void Add(const reference::Row& row, std::int64_t key_begin, const Tensor& given_lse) const {
    const std::int64_t head = row.head / (query.dim(1) / key.dim(1));
    const auto scores = reference::VisibleScores(options, row, query, key, [&](std::int64_t j) {
      return (key_begin + j) * key.stride(0) + head * key.stride(1);
    });
    const double lse = given_lse.dim(1)
                           ? Read(given_lse, row.head * given_lse.stride(0) + row.token)
                           : reference::SumScores(options, row, scores).lse();
    if (lse == -std::numeric_limits<double>::infinity()) return;
    double d = Dot(dy, y, row.token, row.token, row.head, row.head);
    if (dlse && dlse->dim(1)) d -= Read(*dlse, row.head * dlse->stride(0) + row.token);
    if (dsinks && options.sinks) {
      *dsinks->at<double>(row.head) -= std::exp(Read(*options.sinks, row.head) - lse) * d;
    }
    for (const reference::Score& s : scores) {
      const std::int64_t token = key_begin + s.key;
      const double p = std::exp(s.value - lse);
      const double dp = Dot(dy, value, row.token, token, row.head, head);
      const double ds = p * (dp - d) * s.derivative;
      AddTo(dquery, row.token, row.head, ds, key, token, head);
      AddTo(dkey, token, head, ds, query, row.token, row.head);
      AddTo(dvalue, token, head, p, dy, row.token, row.head);
    }
  }

 private:
  static double At(const Tensor& t, std::int64_t token, std::int64_t head, std::int64_t e) {
    return Read(t, token * t.stride(0) + head * t.stride(1) + e);
  }
  static double Dot(const Tensor& a, const Tensor& b, std::int64_t token_a, std::int64_t token_b,
                    std::int64_t head_a, std::int64_t head_b) {
    double sum = 0;
    for (std::int64_t e = 0; e < a.dim(2); ++e) {
      sum += At(a, token_a, head_a, e) * At(b, token_b, head_b, e);
    }
    return sum;
  }
  static void AddTo(const Tensor* to, std::int64_t token, std::int64_t head, double factor,
                    const Tensor& from, std::int64_t from_token, std::int64_t from_head) {
    if (!to) return;
    double* sums = to->at<double>(token, head);
    for (std::int64_t e = 0; e < to->dim(2); ++e) {
      sums[e] += factor * At(from, from_token, from_head, e);
    }
  }
};

void Clear(const Tensor* t) {
  for (std::int64_t r = 0; t && r < t->rows(); ++r) {
    std::fill_n(t->base<double>() + t->row_offset(r), t->row_size(), 0.0);
  }
}

void RunBackward(const Context&, const Tensor& dy, const Tensor& query, const Tensor& key,
                 const Tensor& value, const Tensor& y, const Tensor& lse,
                 const Tensor& query_start_loc, const Tensor& key_start_loc,
                 std::optional<double> scale, bool causal, std::int64_t window_left,
                 std::int64_t window_right, double softcap, const Tensor* alibi_slopes,
                 const Tensor* sinks, const Tensor* dlse, const Tensor* dquery, const Tensor* dkey,
                 const Tensor* dvalue, const Tensor* dsinks) {
  const reference::Options options{scale,        causal, window_left, window_right, softcap,
                                   alibi_slopes, sinks,  nullptr,     nullptr};
  const RowGradient gradient{options, dy, query, key, value, y, dlse, dquery, dkey, dvalue, dsinks};
  for (const Tensor* t : {dquery, dkey, dvalue, dsinks}) Clear(t);
  for (std::int64_t s = 0; s + 1 < query_start_loc.dim(0); ++s) {
    const std::int64_t first = ReadIndex(query_start_loc, s), begin = ReadIndex(key_start_loc, s);
    const std::int64_t queries = ReadIndex(query_start_loc, s + 1) - first;
    const std::int64_t keys = ReadIndex(key_start_loc, s + 1) - begin;
    for (std::int64_t i = 0; i < queries; ++i) {
      for (std::int64_t h = 0; h < query.dim(1); ++h) {
        gradient.Add({first + i, h, i + keys - queries, keys}, begin, lse);
      }
    }
  }
}

}  // namespace

extern constinit const Reference attention_reference{.op = "attention", .run = Bind<&Run>()};

extern constinit const Reference attention_backward_reference{.op = "attention_backward",
                                                              .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
