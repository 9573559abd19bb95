// SPDX-License-Identifier: Apache-2.0
// What the tests of attention over latents share: how far a result may be from the reference.
#pragma once
#include <algorithm>
#include <cmath>
#include <string_view>

#include "ops/common/attention/testing.h"

namespace anyop::optest {

inline double LargestMagnitude(const Array& x) {
  double most = 0;
  for (std::int64_t i = 0; i < x.size(); ++i) most = std::max(most, std::abs(x.Get(i)));
  return most;
}

// |error| of y <= 0.51 ulp + (eT + 2 ds + (8 + 2 sqrt(lk)) u) sum p|v|, with ds the error of a
// score and eT = 2^-16 for bf16, whose weights dot instructions take as two bf16. Of lse <= ds +
// (4 (1 + |lse|) + 2 sqrt(lk)) u.
inline Allowed LatentAllowed(const Call& call, double keys) {
  const double c = call.value("c"), r = call.value("r"),
               v = LargestMagnitude(call.array("kv_cache"));
  const double products =
      c * LargestMagnitude(call.array("q_nope")) * v +
      r * LargestMagnitude(call.array("q_rope")) * LargestMagnitude(call.array("rope_cache"));
  // Products are sums of as many random terms as there are elements, so half of the largest is far
  // above any: a bound that a wrong rounding of T still exceeds.
  const double ds = (8 + 2 * std::sqrt(c + r)) * kU * std::abs(call.number("scale")) * products / 2;
  const double rounding = call.array("q_nope").dtype() == DType::kBF16 ? 0x1p-16 : 0;
  return [=](const Element& e) {
    if (e.result == "lse") {
      if (std::isinf(e.exact)) return 0.0;
      return ds + 4 * kU * (1 + std::abs(e.exact)) + 2 * std::sqrt(keys) * kU;
    }
    return 0.51 * e.ulp() + (rounding + 2 * ds + (8 + 2 * std::sqrt(keys)) * kU) * v;
  };
}

// Tables of blocks in the cache, some missing; lengths that the table can hold.
inline void MakeLatentTables(Call& call) {
  const std::int64_t blocks = call.size("nb"), most = call.size("mb * bs");
  Array& table = call.array("block_table");
  for (std::int64_t i = 0; i < table.size(); ++i) table.SetInt(i, call.Draw(-1, blocks - 1));
  Array& lens = call.array("seq_lens");
  for (std::int64_t i = 0; i < lens.size(); ++i) lens.SetInt(i, call.Draw(-1, most));
}

// One sequence of so many keys in blocks of 4, which lie in reverse order; one head, c = 2, r = 1.
// Key j is (j, 1, 0): with queries of 0 every visible key has the same weight, and y is the mean of
// what is visible, and 1. keys beyond the last hold NaN.
inline Call SmallLatents(std::string_view op, std::int64_t keys, std::int64_t queries) {
  const std::int64_t blocks = 4;
  Call call(op);
  Array kv(DType::kF32, {blocks, 4, 2}, {std::nan("")}), table(DType::kI32, {1, blocks});
  Array rope(DType::kF32, {blocks, 4, 1}, {std::nan("")});
  for (std::int64_t j = 0; j < blocks * 4; ++j) {
    table.SetInt(j / 4, blocks - 1 - j / 4);
    if (j >= keys) continue;
    kv.Set({blocks - 1 - j / 4, j % 4, 0}, double(j));
    kv.Set({blocks - 1 - j / 4, j % 4, 1}, 1);
    rope.Set({blocks - 1 - j / 4, j % 4, 0}, 0);
  }
  Array starts(DType::kI32, {2}), lens(DType::kI32, {1});
  starts.SetInt(1, queries);
  lens.SetInt(0, keys);
  call.Set("q_nope", Array(DType::kF32, {queries, 1, 2}));
  call.Set("q_rope", Array(DType::kF32, {queries, 1, 1}));
  call.Set("kv_cache", kv).Set("rope_cache", rope).Set("block_table", table);
  call.Set("seq_lens", lens).Set("query_start_loc", starts).Set("scale", 1.0);
  return call.Set("return_lse", true);
}

// means: of the visible keys' numbers, one for each token; counts: how many keys each sees.
inline void ExpectMeans(Call call, const std::vector<double>& means,
                        const std::vector<double>& counts) {
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const Array &y = results.at("y"), &lse = results.at("lse");
    ASSERT_EQ(y.dim(0), std::int64_t(means.size()));
    for (std::int64_t i = 0; i < y.dim(0); ++i) {
      const double count = counts[std::size_t(i)];
      EXPECT_NEAR(y.Get({i, 0, 0}), means[std::size_t(i)], 1e-5) << kernel << " " << i;
      EXPECT_NEAR(y.Get({i, 0, 1}), count > 0, 1e-6) << kernel << " " << i;
      if (count > 0) {
        EXPECT_NEAR(lse.Get({0, i}), std::log(count), 1e-6) << kernel << " " << i;
      } else {
        EXPECT_EQ(lse.Get({0, i}), -HUGE_VAL) << kernel << " " << i;
      }
    }
  }
}

}  // namespace anyop::optest
