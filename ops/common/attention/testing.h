// SPDX-License-Identifier: Apache-2.0
// What the tests of attention operators share: how far a result may be from the reference.
#pragma once
#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <string_view>

#include "optest/compare.h"
#include "optest/optest.h"

namespace anyop::optest {

// The largest |x| of an array, times a scale [heads] if there is one.
inline double LargestOf(const Call& call, std::string_view name, std::string_view scale = "") {
  double most = 0, factor = 1;
  const Array& x = call.array(name);
  for (std::int64_t i = 0; i < x.size(); ++i) most = std::max(most, std::abs(x.Get(i)));
  if (!scale.empty() && call.given(scale)) factor = LargestOf(call, scale);
  return most * factor;
}

// The largest sum of |q[e]| over the rows of the queries.
inline double LargestSum(const Array& q) {
  double most = 0;
  const std::int64_t width = q.dim(2);
  for (std::int64_t r = 0; r < q.rows(); ++r) {
    double sum = 0;
    for (std::int64_t e = 0; e < width; ++e) sum += std::abs(q.Get(r * width + e));
    most = std::max(most, sum);
  }
  return most;
}

// sum p|v| for every element of y: what the reference gives for the magnitudes of the values.
inline Array WeighedMagnitudes(const Call& call, std::string_view values) {
  Call copy = call;
  Array& v = copy.array(values);
  for (std::int64_t i = 0; i < v.size(); ++i) v.Set(i, std::abs(v.Get(i)));
  return copy.Exact()["y"];
}

struct AttentionSizes {
  double dk, keys;          // widths and the most keys of a sequence
  double key_sum;           // a bound of sum |q||k|
  std::string_view values;  // the name of the tensor of values
};

// |error| of y <= 0.51 ulp + (eT + 2 ds + (8 + 2 sqrt(lk)) u) sum p|v|, with eT = 2^-16 for bf16,
// whose weights are two bf16 where dot instructions or tiles take them. These also take subnormal
// numbers for 0: at most 2^-119 (1 + |v|) a key, whose lower part may be one. Of lse <= ds +
// (4 (1 + |lse|) + 2 sqrt(lk)) u.
inline Allowed AttentionAllowed(const Call& call, const AttentionSizes& n) {
  const double scale = call.given("scale") ? std::abs(call.number("scale")) : 1 / std::sqrt(n.dk);
  double ds = (8 + 2 * std::sqrt(n.dk)) * kU * scale * n.key_sum;
  ds += 4 * kU * call.number("softcap");
  if (call.given("alibi_slopes")) ds += 4 * kU * LargestOf(call, "alibi_slopes") * n.keys;
  const bool has_dots = call.array("query").dtype() == DType::kBF16;
  const double rounding = has_dots ? 0x1p-16 : 0;
  const double flushed = has_dots ? 0x1p-119 * n.keys * (1 + LargestOf(call, n.values)) : 0;
  const auto sums = std::make_shared<Array>(WeighedMagnitudes(call, n.values));
  return [n, ds, rounding, flushed, sums](const Element& e) {
    if (e.result == "lse") {
      if (std::isinf(e.exact)) return 0.0;
      return ds + 4 * kU * (1 + std::abs(e.exact)) + 2 * std::sqrt(n.keys) * kU;
    }
    const double relative = rounding + 2 * ds + (8 + 2 * std::sqrt(n.keys)) * kU;
    return 0.51 * e.ulp() + relative * sums->Get(e.index) + flushed;
  };
}

// What is promised of 16-bit attention on every machine: 2^-7 (bf16) or 2^-9 (f16) times (|y| + an
// eighth of the row's largest |y|), of normal inputs.
inline Tolerance PromisedOf(DType dtype) {
  return BesideRow(dtype == DType::kBF16 ? 0x1p-7 : 0x1p-9, 1.0 / 8);
}
inline void FillNormal(Call& call, Array& x) {
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const double u = double(call.Draw(1, 1 << 24)) / (1 << 24);
    const double turn = double(call.Draw(0, 1 << 24)) / (1 << 24);
    x.Set(i, std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * turn));
  }
}
// y of every kernel keeps the promise.
inline void ExpectPromised(const Call& call, DType dtype) {
  const Results exact = call.Exact();
  const OpTest test{.op = call.op().name,
                    .tolerance = PerResult({{"lse", Elementwise(64)}}, PromisedOf(dtype))};
  const LazyTerms terms(call);
  for (const auto& [kernel, results] : Call(call).RunEveryKernel()) {
    EXPECT_EQ(Compare(test, call, results, exact, terms).failure, "") << kernel << "\n"
                                                                      << call.Text();
  }
}

}  // namespace anyop::optest
