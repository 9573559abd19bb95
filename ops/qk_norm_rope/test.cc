// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace anyop::optest::qk_norm_rope_test {
namespace {

// The heads of `result`, normalized, in double.
std::vector<double> Normalized(const Call& call, std::string_view result) {
  const Array& x = call.array(result);
  const Array& weight = call.array(result == "query" ? "q_weight" : "k_weight");
  const std::int64_t d = x.dim(2);
  std::vector<double> z;
  for (std::int64_t first = 0; first < x.size(); first += d) {
    double squares = 0;
    for (std::int64_t e = 0; e < d; ++e) squares += x.Get(first + e) * x.Get(first + e);
    const double s = 1 / std::sqrt(squares / double(d) + call.number("eps"));
    for (std::int64_t e = 0; e < d; ++e) {
      z.push_back(x.Get(first + e) * s * (weight.Get(e) + call.number("weight_offset")));
    }
  }
  return z;
}

// (8 + 2 sqrt(d)) u of the larger |z| of the pair, times what rotates it.
Allowed Allowance(const Call& call) {
  const std::vector<double> of_query = Normalized(call, "query");
  const std::vector<double> of_key =
      call.given("key") ? Normalized(call, "key") : std::vector<double>();
  return [of_query, of_key](const Element& e) {
    const std::vector<double>& all = e.result == "query" ? of_query : of_key;
    const Array &x = e.call.array(e.result), &table = e.call.array("cos_sin_cache");
    const std::int64_t d = x.dim(2), q = table.dim(1) / 2, at = e.index % d;
    const std::int64_t row = e.call.array("positions").GetInt(e.index / (d * x.dim(1)));
    double z = std::fabs(all[std::size_t(e.index)]), factor = 1;
    if (at < 2 * q && row >= 0) {
      const bool neox = e.call.word("style") == "neox";
      const std::int64_t other = neox ? (at + q) % (2 * q) : at ^ 1, pair = neox ? at % q : at / 2;
      z = std::max(z, std::fabs(all[std::size_t(e.index + other - at)]));
      factor = std::fabs(table.Get({row, pair})) + std::fabs(table.Get({row, q + pair}));
    }
    return 0.51 * e.ulp() + (8 + 2 * std::sqrt(double(d))) * kU * z * factor + 0x1p-126;
  };
}

const OpTest kQkNormRope{
    .op = "qk_norm_rope",
    .tolerance = Tolerance(Allowance),
    .row_invariant = true,
    .row_variable = "t",
    .sizes = {"t = 1, hq = 8, hkv = 2, d = 128, p = 40, r = 128",
              "t = 5, hq = 3, hkv = 1, d = 70, p = 7, r = 38",
              "t = 2, hq = 1, hkv = 2, d = 1200, p = 3, r = 1100"},
    .values = {{"weight_offset", {0.0, 1.0}}, {"eps", {1e-6, 0.25}}},
};
TEST(QkNormRope, MatchesItsReference) { CheckAll(kQkNormRope); }

// A head of 2, -2, 2, -2, 2 (mean square 4), gains that double it, the pair (0, 1) or (0, 2)
// turned by 90 degrees.
Call OneHead(const char* style) {
  Call call("qk_norm_rope");
  call.Set("query", Array(DType::kF32, {1, 1, 5}, {2, -2, 2, -2, 2}));
  call.Set("q_weight", Array(DType::kF32, {5}, {1, 2, 3, 4, 5}));
  call.Set("k_weight", Array(DType::kF32, {5}, {NAN}));
  call.Set("positions", Array(DType::kI64, {1}, {1})).Set("style", style).Set("eps", 0.0);
  return call.Set("cos_sin_cache", Array(DType::kF32, {2, 4}, {NAN, NAN, NAN, NAN, 0, 1, 1, 0}));
}
void ExpectQuery(Call call, std::initializer_list<double> expected) {
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("query")->second, Array(DType::kF32, {1, 1, 5}, expected)) << kernel;
  }
}

TEST(QkNormRope, NormalizesThenRotates) {
  ExpectQuery(OneHead("neox"), {-3, -2, 1, -4, 5});
  ExpectQuery(OneHead("gptj"), {2, 1, 3, -4, 5});
}

TEST(QkNormRope, AddsTheOffsetToTheGain) {
  ExpectQuery(OneHead("gptj").Set("weight_offset", 1.0), {3, 2, 4, -5, 6});
}

TEST(QkNormRope, NormalizesATokenOfPositionMinusOneWithoutRotatingIt) {
  Call call = OneHead("neox");
  ExpectQuery(call.Set("positions", Array(DType::kI32, {1}, {-1})), {1, -2, 3, -4, 5});
}

TEST(QkNormRope, RoundsOnce) {
  // z = 257, which bf16 has not; times 257 / 256 it is 258.0039: rounded before, it would be 256.
  Call call("qk_norm_rope");
  call.Set("query", Array(DType::kBF16, {1, 1, 2}, {1, 1})).Set("eps", 0.0);
  call.Set("q_weight", Array(DType::kBF16, {2}, {256, 0})).Set("weight_offset", 1.0);
  call.Set("k_weight", Array(DType::kBF16, {2}, {0}));
  call.Set("positions", Array(DType::kI64, {1}, {0}));
  call.Set("cos_sin_cache", Array(DType::kF32, {1, 2}, {257.0 / 256, 0}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("query")->second.Get(0), 258) << kernel;
  }
}

TEST(QkNormRope, RefusesAPositionBeyondTheTable) {
  Call call = OneHead("neox");
  call.Set("positions", Array(DType::kI64, {1}, {2}));
  const std::string text = call.Refusal();
  EXPECT_EQ(text.rfind("qk_norm_rope: positions[0] is 2, but must be less than 2", 0), 0u) << text;
}

}  // namespace
}  // namespace anyop::optest::qk_norm_rope_test
