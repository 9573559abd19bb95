// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace anyop::optest::mrope_test {
namespace {

// Sections that add up, in 'interleaved' as even as may be; some axes of some tokens without a
// position.
void Divide(Call& call) {
  Array& positions = call.array("positions");
  const std::int64_t axes = positions.dim(0), pairs = call.array("cos_sin_cache").dim(1) / 2;
  const std::int64_t rows = call.array("cos_sin_cache").dim(0);
  std::vector<std::int64_t> sections(std::size_t(axes), 0);
  std::int64_t left = pairs;
  for (std::int64_t m = axes - 1; m > 0; --m) {
    const bool blocks = call.word("order") == "blocks";
    sections[std::size_t(m)] = call.Draw(0, blocks ? left : (pairs - m + axes - 1) / axes);
    left -= sections[std::size_t(m)];
  }
  sections[0] = left;
  call.Set("sections", sections);
  for (std::int64_t i = 0; i < positions.size(); ++i) {
    positions.SetInt(i, rows == 0 || call.Draw(0, 5) == 0 ? -1 : call.Draw(0, rows - 1));
  }
}

// 0.51 ulp + 3u (|a| + |b|) max(|c|, |s|), and the bits of what is not rotated.
double Allowance(const Element& e) {
  const Call& call = e.call;
  const Array &table = call.array("cos_sin_cache"), &x = call.array(e.result);
  const Array& positions = call.array("positions");
  const std::int64_t d = x.dim(2), q = table.dim(1) / 2, z = e.index % d;
  const std::int64_t token = e.index / (d * x.dim(1)), axes = positions.dim(0);
  if (z >= 2 * q) return 0;
  const bool neox = call.word("style") == "neox";
  const std::int64_t other = neox ? (z + q) % (2 * q) : z ^ 1;
  const std::int64_t pair = neox ? z % q : z / 2;
  double cs = -1;
  for (std::int64_t axis = 0; axis < axes; ++axis) {
    const std::int64_t row = positions.GetInt(axis * positions.dim(1) + token);
    if (row < 0) continue;
    cs = std::max({cs, std::abs(table.Get({row, pair})), std::abs(table.Get({row, q + pair}))});
  }
  const double ab = std::abs(x.Get(e.index)) + std::abs(x.Get(e.index + other - z));
  return cs < 0 ? 0 : 0.51 * e.ulp() + 3 * kU * ab * cs;
}

const OpTest kMrope{
    .op = "mrope",
    .tolerance = [](const Element& e) { return Allowance(e); },
    .sizes = {"a = 3, t = 3, hq = 28, hkv = 4, d = 128, p = 40, r = 128",
              "a = 4, t = 5, hq = 2, hkv = 1, d = 100, p = 7, r = 70",
              "a = 2, t = 2, hq = 1, hkv = 1, d = 1200, p = 3, r = 1100"},
    .prepare = Divide,
};
TEST(Mrope, MatchesItsReference) { CheckAll(kMrope); }

// Ones at every first element of a pair: what comes is the cosine of each pair's row, 10 * row + j.
Call Turn(const char* order, std::vector<std::int64_t> sections) {
  Call call("mrope");
  call.Set("positions", Array(DType::kI32, {3, 1}, {0, 1, 2}));
  Array query(DType::kF32, {1, 1, 14}), table(DType::kF32, {3, 12});
  for (std::int64_t j = 0; j < 6; ++j) query.Set(j, 1);
  for (std::int64_t row = 0; row < 3; ++row) {
    for (std::int64_t j = 0; j < 6; ++j) {
      table.Set({row, j}, double(10 * row + j));
      table.Set({row, 6 + j}, double(100 * row + j));
    }
  }
  query.Set(13, 7);
  call.Set("query", query).Set("cos_sin_cache", table).Set("sections", std::move(sections));
  return call.Set("order", order);
}
void ExpectQuery(Call call, std::initializer_list<double> expected) {
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("query")->second, Array(DType::kF32, {1, 1, 14}, expected)) << kernel;
  }
}

TEST(Mrope, GivesEachAxisABlockOfPairs) {
  ExpectQuery(Turn("blocks", {1, 2, 3}), {0, 11, 12, 23, 24, 25, 0, 101, 102, 203, 204, 205, 0, 7});
}

TEST(Mrope, GivesTheAxesPairsInTurns) {
  ExpectQuery(Turn("interleaved", {2, 2, 2}),
              {0, 11, 22, 3, 14, 25, 0, 101, 202, 3, 104, 205, 0, 7});
  // Axis 1 ends after one pair, and axis 0 has its place.
  ExpectQuery(Turn("interleaved", {3, 1, 2}), {0, 11, 22, 3, 4, 25, 0, 101, 202, 3, 4, 205, 0, 7});
}

TEST(Mrope, PairsNeighboursInStyleGptj) {
  Call call = Turn("blocks", {1, 2, 3});
  Array query(DType::kF32, {1, 1, 14});
  for (std::int64_t j = 0; j < 6; ++j) query.Set(2 * j, 1);
  call.Set("query", query).Set("style", "gptj");
  ExpectQuery(call, {0, 0, 11, 101, 12, 102, 23, 203, 24, 204, 25, 205, 0, 0});
}

TEST(Mrope, LeavesTheBitsOfAnAxisWithoutAPosition) {
  for (const char* style : {"neox", "gptj"}) {
    Call call = Turn("blocks", {2, 2, 2});
    call.Set("positions", Array(DType::kI32, {3, 1}, {-1, 1, -7})).Set("style", style);
    Array query(DType::kF32, {1, 1, 14}, {-0.0});
    query.Set(0, INFINITY);
    const bool neox = std::string_view(style) == "neox";
    for (const auto& [kernel, results] : call.Set("query", query).RunEveryKernel()) {
      const Array& turned = results.find("query")->second;
      for (std::int64_t e = 0; e < 12; ++e) {
        const std::int64_t pair = neox ? e % 6 : e / 2;
        if (pair == 2 || pair == 3) continue;
        EXPECT_EQ(std::memcmp(turned.data<float>() + e, query.data<float>() + e, 4), 0)
            << kernel << " " << style << " " << e;
      }
    }
  }
}

TEST(Mrope, RefusesSectionsThatAnAxisCannotHave) {
  EXPECT_EQ(Turn("interleaved", {1, 2, 3}).Refusal(),
            "mrope: sections[2] is 3, but must be at most 2 in order 'interleaved' (of 6 pairs, "
            "one in 3 may belong to axis 2). Try order 'blocks'.");
  EXPECT_EQ(Turn("blocks", {-1, 2, 5}).Refusal(),
            "mrope: sections >= 0 must hold, but sections[0] is -1, sections is [-1, 2, 5].");
  EXPECT_EQ(Turn("blocks", {1, 2, 2}).Refusal(),
            "mrope: sum(sections) == r/2 must hold, but sections is [1, 2, 2], r is 12 "
            "(cos_sin_cache is f32[3, 12]).");
}

TEST(Mrope, RefusesAPositionBeyondTheTable) {
  Call call = Turn("blocks", {1, 2, 3});
  call.Set("positions", Array(DType::kI64, {3, 1}, {0, 3, 0}));
  const std::string text = call.Refusal();
  EXPECT_EQ(text.rfind("mrope: positions[1, 0] is 3, but must be less than 3", 0), 0u) << text;
}

}  // namespace
}  // namespace anyop::optest::mrope_test
