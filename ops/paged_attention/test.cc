// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <limits>

#include "anyop/scope.h"
#include "ops/common/attention/testing.h"

namespace anyop::optest::paged_attention_test {
namespace {

Allowed PagedTolerance(const Call& call) {
  const bool bytes = Bytes(call.array("key_cache").dtype()) == 1;
  const double key = LargestOf(call, "key_cache", bytes ? "k_scale" : "");
  return AttentionAllowed(call, {.dk = call.value("dk"),
                                 .keys = call.value("mb * bs") + 1,
                                 .key_sum = LargestSum(call.array("query")) * key,
                                 .values = "value_cache"});
}

// Tables of blocks in the cache, some missing; lengths that the table can hold.
void MakeTable(Call& call) {
  const std::int64_t blocks = call.size("nb"), most = call.size("mb * bs");
  Array& table = call.array("block_table");
  for (std::int64_t i = 0; i < table.size(); ++i) table.SetInt(i, call.Draw(-1, blocks - 1));
  Array& lens = call.array("seq_lens");
  for (std::int64_t i = 0; i < lens.size(); ++i) lens.SetInt(i, call.Draw(-1, most));
}

const OpTest kPagedAttention{
    .op = "paged_attention",
    .tolerance = Tolerance(PagedTolerance),
    .sizes = {"t = 1, b = 1, hq = 9, hkv = 3, dk = 64, dv = 64, bs = 16, mb = 16, nb = 20",
              "t = 3, b = 3, hq = 8, hkv = 2, dk = 128, dv = 128, bs = 16, mb = 40, nb = 50",
              "t = 50, b = 2, hq = 4, hkv = 1, dk = 80, dv = 33, bs = 5, mb = 30, nb = 40",
              "t = 70, b = 1, hq = 2, hkv = 2, dk = 40, dv = 17, bs = 128, mb = 2, nb = 3",
              "t = 2, b = 2, hq = 20, hkv = 1, dk = 24, dv = 48, bs = 1, mb = 100, nb = 90",
              "t = 8, b = 8, hq = 12, hkv = 12, dk = 64, dv = 72, bs = 16, mb = 70, nb = 80"},
    .ranges = {{"k_scale", {0.01, 1}}, {"v_scale", {0.01, 1}}},
    .values = {{"window_left", {-1, 0, 7}}, {"window_right", {-1, 0, 3}}, {"softcap", {0, 2.5}}},
    .not_extreme = {{"k_scale", "it multiplies sums, which may be 0"},
                    {"v_scale", "it multiplies sums, which may be 0"}},
    .prepare = MakeTable,
};
TEST(PagedAttention, MatchesItsReference) { CheckAll(kPagedAttention); }

TEST(PagedAttention, KeepsItsPromiseOnEveryMachine) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const std::int64_t keys : {1, 7, 130, 1000, 4096}) {
      for (const std::int64_t queries : {1, 40}) {
        const std::int64_t bs = keys % 2 ? 16 : 128, h = 2, d = 128, blocks = (keys + bs - 1) / bs;
        if (queries > keys || queries * keys > 41000) continue;
        Call call("paged_attention", std::uint64_t(keys));
        Array q(dtype, {queries, 2 * h, d}), k(dtype, {blocks, bs, h, d}), v = k;
        for (Array* x : {&q, &k, &v}) FillNormal(call, *x);
        Array table(DType::kI32, {1, blocks}), lens(DType::kI32, {1}), starts(DType::kI32, {2});
        for (std::int64_t i = 0; i < blocks; ++i) table.SetInt(i, blocks - 1 - i);
        lens.SetInt(0, keys);
        starts.SetInt(1, queries);
        call.Set("query", q).Set("key_cache", k).Set("value_cache", v);
        call.Set("block_table", table).Set("seq_lens", lens).Set("query_start_loc", starts);
        ExpectPromised(call, dtype);
      }
    }
  }
}

// A cache of `blocks` blocks of 4, one head of width 2: key j of the only sequence is (0, 0), its
// value (j, 1). Blocks lie in reverse order.
Call Small(std::int64_t keys, std::int64_t queries, std::int64_t blocks = 4) {
  Call call("paged_attention");
  Array k(DType::kF32, {blocks, 4, 1, 2}), v = k, table(DType::kI32, {1, blocks});
  for (std::int64_t c = 0; c < blocks; ++c) {
    table.SetInt(c, blocks - 1 - c);
    for (std::int64_t o = 0; o < 4; ++o) {
      v.Set({blocks - 1 - c, o, 0, 0}, double(4 * c + o));
      v.Set({blocks - 1 - c, o, 0, 1}, 1);
    }
  }
  Array starts(DType::kI32, {2}), lens(DType::kI32, {1});
  starts.SetInt(1, queries);
  lens.SetInt(0, keys);
  call.Set("query", Array(DType::kF32, {queries, 1, 2}, {1})).Set("key_cache", k);
  call.Set("value_cache", v).Set("block_table", table).Set("seq_lens", lens);
  call.Set("query_start_loc", starts).Set("return_lse", true);
  return call;
}
Array MeanAndOne(std::initializer_list<double> means) {
  Array y(DType::kF32, {std::int64_t(means.size()), 1, 2}, {1});
  std::int64_t i = 0;
  for (const double mean : means) y.Set(2 * i++, mean);
  return y;
}
constexpr double kNone = -std::numeric_limits<double>::infinity();

// With keys of zeros every visible key has the same weight, so y is the mean of what is visible.
void ExpectMeans(Call call, std::initializer_list<double> means) {
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const Array &y = results.find("y")->second, expected = MeanAndOne(means);
    ASSERT_EQ(y.shape(), expected.shape());
    for (std::int64_t i = 0; i < y.size(); ++i) {
      EXPECT_NEAR(y.Get(i), expected.Get(i), 1e-5) << kernel << " y" << y.IndexText(i);
    }
  }
}

TEST(PagedAttention, LastQuerySeesTheLastKey) {
  ExpectMeans(Small(10, 3), {3.5, 4, 4.5});
  ExpectMeans(Small(10, 3).Set("causal", false), {4.5, 4.5, 4.5});
}

TEST(PagedAttention, WindowsIncludeTheirEdges) {
  ExpectMeans(Small(10, 3).Set("window_left", 0), {7, 8, 9});
  ExpectMeans(Small(10, 3).Set("window_left", 2), {6, 7, 8});
  ExpectMeans(Small(10, 3).Set("causal", false).Set("window_right", 1), {4, 4.5, 4.5});
  ExpectMeans(Small(10, 3).Set("causal", false).Set("window_right", 1).Set("window_left", 1),
              {7, 8, 8.5});
}

TEST(PagedAttention, HugeWindowsAreNoWindows) {
  const std::int64_t far = std::numeric_limits<std::int64_t>::max();
  ExpectMeans(Small(10, 3).Set("window_left", far).Set("window_right", far), {3.5, 4, 4.5});
}

TEST(PagedAttention, EarlyQueriesOfAShortSequenceSeeNothing) {
  Call call = Small(2, 4);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const Array &y = results.find("y")->second, &lse = results.find("lse")->second;
    EXPECT_EQ(y, Array(DType::kF32, {4, 1, 2}, {0, 0, 0, 0, 0, 1, 0.5, 1})) << kernel;
    EXPECT_EQ(lse.Get(0), kNone) << kernel;
    EXPECT_NEAR(lse.Get(3), std::log(2), 1e-6) << kernel;
  }
}

TEST(PagedAttention, MinusInfinityEverywhereIsNoKey) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const std::int64_t queries : {1, 3}) {
    for (const bool has_sink : {false, true}) {
      Call call = Small(10, queries).Set("scale", 1.0);
      for (std::int64_t x = 0; x < call.array("key_cache").size(); ++x) {
        call.array("key_cache").Set(x, -infinity);
      }
      if (has_sink) call.Set("sinks", Array(DType::kF32, {1}, {0.5}));
      for (const auto& [kernel, results] : call.RunEveryKernel()) {
        for (std::int64_t i = 0; i < 2 * queries; ++i) {
          EXPECT_EQ(results.at("y").Get(i), 0) << kernel << ", " << queries << " queries";
        }
        for (std::int64_t i = 0; i < queries; ++i) {
          EXPECT_EQ(results.at("lse").Get(i), has_sink ? 0.5 : kNone) << kernel;
        }
      }
    }
  }
}

TEST(PagedAttention, NegativeLengthsAreEmptySequences) {
  Call call = Small(-3, 1);
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second, Array(DType::kF32, {1, 1, 2})) << kernel;
    EXPECT_EQ(results.find("lse")->second.Get(0), kNone) << kernel;
  }
}

TEST(PagedAttention, MissingBlocksAreNotVisible) {
  Call call = Small(10, 1);
  call.array("block_table").SetInt(1, -1);  // keys 4 to 7
  ExpectMeans(call, {(0 + 1 + 2 + 3 + 8 + 9) / 6.0});
}

TEST(PagedAttention, SinksTakeWeightButAddNoValue) {
  Call call = Small(3, 1).Set("sinks", Array(DType::kF32, {1}, {0}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_NEAR(results.find("y")->second.Get(1), 0.75, 1e-6) << kernel;
    EXPECT_NEAR(results.find("lse")->second.Get(0), std::log(4), 1e-6) << kernel;
  }
  call = Small(0, 1).Set("sinks", Array(DType::kF32, {1}, {0.5}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second.Get(1), 0) << kernel;
    EXPECT_EQ(results.find("lse")->second.Get(0), 0.5) << kernel;
  }
}

TEST(PagedAttention, SlopesCountFromTheQuery) {
  // Slope ln 2: each step back halves the weight, and the nearest key keeps its score.
  Call call = Small(3, 1).Set("alibi_slopes", Array(DType::kF32, {1}, {std::log(2)}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_NEAR(results.find("lse")->second.Get(0), std::log(1.75), 1e-6) << kernel;
    EXPECT_NEAR(results.find("y")->second.Get(0), (1 * 0.5 + 2 * 1) / 1.75, 1e-6) << kernel;
  }
}

TEST(PagedAttention, PaddingTokensAreZero) {
  Call call = Small(3, 1).Set("query", Array(DType::kF32, {3, 1, 2}, {1}));
  call.Set("sinks", Array(DType::kF32, {1}, {0}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    for (int i = 2; i < 6; ++i) EXPECT_EQ(results.find("y")->second.Get(i), 0) << kernel;
    EXPECT_EQ(results.find("lse")->second.Get(1), kNone) << kernel;
  }
}

// Fills what no key may influence with NaN: offsets beyond the length, and blocks not in use.
TEST(PagedAttention, UnusedRowsMayHoldNaN) {
  for (const std::int64_t queries : {1, 3, 9}) {
    Call call = Small(10, queries);
    for (const char* name : {"key_cache", "value_cache"}) {
      Array& cache = call.array(name);
      for (std::int64_t x = 0; x < 8; ++x) cache.Set(x, std::nan(""));    // block 0: keys 12..
      for (std::int64_t x = 12; x < 16; ++x) cache.Set(x, std::nan(""));  // keys 10, 11
    }
    const Call whole = Small(10, queries);
    const Results exact = whole.Exact();
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      const Array &y = results.find("y")->second, &e = exact.find("y")->second;
      for (std::int64_t i = 0; i < y.size(); ++i) {
        EXPECT_NEAR(y.Get(i), e.Get(i), 1e-5) << kernel << ", " << queries << " queries";
      }
    }
  }
}

TEST(PagedAttention, LaterKeysOfAPrefillMayHoldInfinity) {
  Call call = Small(12, 12);
  call.array("value_cache").Set({1, 3, 0, 0}, std::numeric_limits<double>::infinity());  // key 11
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const Array& y = results.find("y")->second;
    for (std::int64_t i = 0; i < 11; ++i) EXPECT_NEAR(y.Get(2 * i), double(i) / 2, 1e-5) << kernel;
  }
}

TEST(PagedAttention, RefusesALengthBeyondTheTable) {
  EXPECT_EQ(Small(17, 1).Refusal(),
            "paged_attention: seq_lens[0] is 17, but must be at most 16 (4 columns of block_table, "
            "blocks of 4).");
}

TEST(PagedAttention, RefusesABlockBeyondTheCache) {
  Call call = Small(10, 1);
  call.array("block_table").SetInt(2, 4);
  EXPECT_EQ(call.Refusal(),
            "paged_attention: block_table[0, 2] is 4, but must be less than 4 (the blocks of "
            "key_cache). Try -1 for a block that does not exist.");
}

TEST(PagedAttention, LooksOnlyAtBlocksThatAreUsed) {
  Call call = Small(10, 1).Set("window_left", 3);
  call.array("block_table").SetInt(0, 1000);  // before the window
  call.array("block_table").SetInt(3, 1000);  // beyond the length
  ExpectMeans(call, {7.5});
}

// A prompt in two chunks gives what it gives in one.
TEST(PagedAttention, ChunkedPrefillEqualsWhole) {
  Call whole("paged_attention", 3), second("paged_attention", 3);
  const std::int64_t n = 40, h = 3, d = 16;
  Array q(DType::kF32, {n, 2 * h, d}), cache(DType::kF32, {12, 4, h, d}), values = cache;
  Array table(DType::kI32, {1, 12}), lens(DType::kI32, {1}), starts(DType::kI32, {2});
  for (Array* x : {&q, &cache, &values}) {
    for (std::int64_t i = 0; i < x->size(); ++i) x->Set(i, double(whole.Draw(-100, 100)) / 50);
  }
  for (std::int64_t i = 0; i < 12; ++i) table.SetInt(i, (i * 5) % 12);
  lens.SetInt(0, n);
  starts.SetInt(1, n);
  Array tail(DType::kF32, {5, 2 * h, d}), tail_starts(DType::kI32, {2});
  for (std::int64_t i = 0; i < tail.size(); ++i) tail.Set(i, q.Get(q.size() - tail.size() + i));
  tail_starts.SetInt(1, 5);
  for (Call* call : {&whole, &second}) {
    call->Set("key_cache", cache).Set("value_cache", values).Set("block_table", table);
    call->Set("seq_lens", lens).Set("return_lse", false);
  }
  whole.Set("query", q).Set("query_start_loc", starts);
  second.Set("query", tail).Set("query_start_loc", tail_starts);
  const auto all = whole.RunEveryKernel();
  for (const auto& [kernel, results] : second.RunEveryKernel()) {
    const Array &y = results.find("y")->second, &z = all.at(kernel).find("y")->second;
    for (std::int64_t i = 0; i < y.size(); ++i) {
      EXPECT_NEAR(y.Get(i), z.Get(z.size() - y.size() + i), 1e-5) << kernel;
    }
  }
}

// Sequences of these lengths, one query each, 4 rows of 3 key heads of width 24.
Call Decode(std::initializer_list<std::int64_t> lengths, DType cache) {
  Call call("paged_attention", 7);
  const std::int64_t b = std::int64_t(lengths.size()), h = 3, d = 24, columns = 90;
  Array q(DType::kBF16, {b, 4 * h, d}), keys(cache, {97, 16, h, d}), values = keys;
  Array table(DType::kI32, {b, columns}), lens(DType::kI64, {b});
  for (Array* x : {&q, &keys, &values}) {
    for (std::int64_t i = 0; i < x->size(); ++i) x->Set(i, double(call.Draw(-100, 100)) / 4);
  }
  for (std::int64_t i = 0; i < table.size(); ++i) table.SetInt(i, (i * 31) % 97);
  std::int64_t s = 0;
  for (const std::int64_t length : lengths) lens.SetInt(s++, length);
  call.Set("query", q).Set("key_cache", keys).Set("value_cache", values).Set("scale", 0.001);
  call.Set("block_table", table).Set("seq_lens", lens).Set("return_lse", true);
  return call;
}

TEST(PagedAttention, ScalesAreOfCachesOfBytesOnly) {
  for (const DType cache : {DType::kBF16, DType::kI8, DType::kF8E4M3}) {
    Call plain = Decode({19, 40}, cache);
    Call scaled = plain;
    scaled.Set("k_scale", Array(DType::kF32, {3}, {0.5}));
    scaled.Set("v_scale", Array(DType::kF32, {3}, {0.5}));
    const auto expected = plain.RunEveryKernel();
    for (const auto& [kernel, results] : scaled.RunEveryKernel()) {
      EXPECT_EQ(results.find("y")->second == expected.at(kernel).find("y")->second,
                cache == DType::kBF16)
          << kernel << ", " << Name(cache);
    }
  }
}

TEST(PagedAttention, NoSequencesAndNoQueriesAreFine) {
  for (const auto& [kernel, results] : Decode({}, DType::kI8).RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second.size(), 0) << kernel;
  }
}

// A NaN in a cache of bytes reaches the rows that see it, and no others.
TEST(PagedAttention, NaNInBytesStaysWithItsHead) {
  Call call = Decode({40}, DType::kF8E4M3);
  Array& values = call.array("value_cache");
  values.Set({31, 3, 1, 5}, std::nan(""));  // key 19, head 1
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const Array& y = results.find("y")->second;
    for (std::int64_t h = 0; h < 12; ++h) {
      for (std::int64_t e = 0; e < 24; ++e) {
        EXPECT_EQ(std::isnan(y.Get({0, h, e})), h / 4 == 1 && e == 5) << kernel;
      }
    }
  }
}

// One key each with every byte: the values come out as they are, and the scores as lse.
TEST(PagedAttention, DecodesEveryByte) {
  for (const DType cache : {DType::kI8, DType::kF8E4M3}) {
    const std::int64_t d = 80, n = 256;
    Array q(DType::kBF16, {n, 1, d}), keys(cache, {n, 1, 1, d}), values = keys;
    Array table(DType::kI32, {n, 1}), lens(DType::kI32, {n}, {1});
    for (std::int64_t i = 0; i < n; ++i) {
      table.SetInt(i, i);
      q.Set({i, 0, i % d}, 1);
      const auto byte = std::uint8_t(i);
      const double x = cache == DType::kI8 ? double(std::int8_t(byte))
                                           : double(float(std::bit_cast<F8E4M3>(byte)));
      keys.Set({i, 0, 0, i % d}, x);
      for (std::int64_t e = 0; e < d; ++e) values.Set({i, 0, 0, e}, x);
    }
    Call call("paged_attention");
    call.Set("query", q).Set("key_cache", keys).Set("value_cache", values).Set("scale", 1.0);
    call.Set("block_table", table).Set("seq_lens", lens).Set("return_lse", true);
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      const Array &y = results.find("y")->second, &lse = results.find("lse")->second;
      for (std::int64_t i = 0; i < n; ++i) {
        const double x = values.Get({i, 0, 0, 0});
        if (std::isnan(x)) {
          ASSERT_TRUE(std::isnan(y.Get({i, 0, 0}))) << kernel << ", byte " << i;
          continue;
        }
        ASSERT_EQ(lse.Get({0, i}), x) << kernel << ", byte " << i;
        for (std::int64_t e = 0; e < d; ++e) {
          ASSERT_EQ(y.Get({i, 0, e}), x) << kernel << ", byte " << i;
        }
      }
    }
  }
}

// In batch-invariant mode the last queries have the same bits alone and behind others, at odd and
// even positions, with and without a window.
TEST(PagedAttention, BatchInvariantBitsDoNotDependOnOtherQueries) {
  Scope scope;
  scope.batch_invariant();
  for (const std::int64_t window : {-1, 6}) {
    for (const std::int64_t alone : {1, 2, 5}) {
      Call whole = Decode({71}, DType::kBF16), part = whole;
      Array q(DType::kBF16, {7, 6, 24}), tail(DType::kBF16, {alone, 6, 24});
      for (std::int64_t i = 0; i < q.size(); ++i) q.Set(i, double(whole.Draw(-100, 100)) / 4);
      for (std::int64_t i = 0; i < tail.size(); ++i) tail.Set(i, q.Get(q.size() - tail.size() + i));
      Array starts(DType::kI64, {2}), tail_starts = starts;
      starts.SetInt(1, 7);
      tail_starts.SetInt(1, alone);
      whole.Set("query", q).Set("query_start_loc", starts).Set("window_left", window);
      part.Set("query", tail).Set("query_start_loc", tail_starts).Set("window_left", window);
      const auto all = whole.RunEveryKernel();
      for (const auto& [kernel, results] : part.RunEveryKernel()) {
        const Array &y = results.find("y")->second, &z = all.at(kernel).find("y")->second;
        for (std::int64_t i = 0; i < y.size(); ++i) {
          ASSERT_EQ(y.Get(i), z.Get(z.size() - y.size() + i)) << kernel << ", " << alone;
        }
      }
    }
  }
}

}  // namespace
}  // namespace anyop::optest::paged_attention_test
