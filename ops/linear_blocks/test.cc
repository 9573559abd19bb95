// SPDX-License-Identifier: Apache-2.0
#include "ops/linear_blocks/kernel.h"
#include "optest/gtest/sizes.h"
#include "optest/optest.h"

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

namespace anyop::optest::linear_blocks_test {
namespace {

// Where a format keeps its f16 numbers, in bytes of a block. A packed block is 16 times as long.
struct Layout {
  std::int64_t block, begin, end;
  bool minimum_is_taken;  // m is subtracted
};
Layout LayoutOf(const Call& call) {
  const std::string format(call.word("format"));
  const Layout row = format == "q4_0"   ? Layout{18, 0, 2, false}
                     : format == "q4_1" ? Layout{20, 0, 4, false}
                     : format == "q5_0" ? Layout{22, 0, 2, false}
                     : format == "q5_1" ? Layout{24, 0, 4, false}
                     : format == "q8_0" ? Layout{34, 0, 2, false}
                     : format == "q4_K" ? Layout{144, 0, 4, true}
                     : format == "q5_K" ? Layout{176, 0, 4, true}
                                        : Layout{210, 208, 210, false};
  const bool packed = call.op().contract->param("packed") >= 0;
  const std::int64_t rows = packed ? 16 : 1;
  return {rows * row.block, rows * row.begin, rows * row.end, row.minimum_is_taken};
}
Array& Blocks(Call& call) {
  return call.array(call.op().contract->param("packed") >= 0 ? "packed" : "weight");
}

// Calls f(i, is_m) for the upper byte of each number.
template <class Fn>
void ForNumbers(Call& call, Fn&& f) {
  const Layout layout = LayoutOf(call);
  for (std::int64_t i = 0; i < Blocks(call).size(); ++i) {
    const std::int64_t at = i % layout.block - layout.begin, length = layout.end - layout.begin;
    const bool has_m = length % 4 == 0 && (length == 4 || length == 64);
    if (at >= 0 && at < length && at % 2 == 1) f(i, has_m && at >= length / 2);
  }
}

// Random bytes become blocks of moderate f16 numbers. Those of superblocks are smaller, as integers
// multiply them.
void MakeNumbersModerate(Call& call) {
  Array& blocks = Blocks(call);
  const bool is_super = call.word("format")[3] == 'K';
  ForNumbers(call, [&](std::int64_t i, bool) {
    const int high = int(blocks.Get(i));
    // 2^-7 to 2^-3, or 2^-5 to 4; either sign
    blocks.Set(i, is_super ? (high & 0x8f) | 0x20 : (high & 0x83) | 0x28 | (high & 0xc));
  });
}

// Every factor becomes positive, so that decoding gives |d| * quant + |m|: what the sums of the
// products are made of.
void MakeNumbersPositive(Call& call) {
  const bool minimum_is_taken = LayoutOf(call).minimum_is_taken;
  Array& blocks = Blocks(call);
  ForNumbers(call, [&](std::int64_t i, bool is_m) {
    blocks.Set(i, (int(blocks.Get(i)) & 0x7f) | (is_m && minimum_is_taken ? 0x80 : 0));
  });
}
// The largest quants of formats where they have a sign, in packed blocks.
void MakeQuantsLargest(Call& call) {
  const std::string format(call.word("format"));
  if (format[3] == '1' || format == "q4_K" || format == "q5_K") return;
  const Layout layout = LayoutOf(call);
  Array& blocks = Blocks(call);
  for (std::int64_t i = 0; i < blocks.size(); ++i) {
    const std::int64_t at = i % layout.block;
    if (at >= layout.begin && at < layout.end) continue;
    if (format == "q6_K" && at >= 16 * 192) {  // scales
      const int byte = int(blocks.Get(i));
      blocks.Set(i, byte < 128 ? byte : std::min(127, 256 - byte));
    } else {
      blocks.Set(i, format == "q8_0" ? 127 : 0);
    }
  }
}
// |x|, or the most that its quants can stand for: half a step of a block more.
Array AbsoluteX(Array x, bool is_exact) {
  for (std::int64_t b = 0; b < x.size(); b += 32) {
    double largest = 0;
    for (std::int64_t l = b; l < b + 32; ++l) {
      x.Set(l, std::fabs(x.Get(l)));
      largest = std::max(largest, x.Get(l));
    }
    for (std::int64_t l = b; l < b + 32 && !is_exact; ++l) x.Set(l, x.Get(l) + largest / 254);
  }
  return x;
}
// The S of the sums.
Array AbsoluteTerms(Call call, bool is_exact) {
  const std::int64_t k = call.array("x").dim(-1);
  MakeNumbersPositive(call);
  call.Set("x", AbsoluteX(call.array("x"), is_exact));
  Array bias;
  if (call.given("bias")) bias = call.array("bias");
  call.Remove("bias");
  Array sums;
  if (call.op().contract->param("packed") >= 0) {
    MakeQuantsLargest(call);
    sums = call.Exact()["y"];
  } else {
    Call decode("dequantize_blocks");
    decode.Set("weight", Blocks(call)).Set("format", call.argument("format"));
    Array weight = decode.Exact()["x"];
    sums = call.Exact()["y"];
    const Array& x = call.array("x");
    const std::int64_t n = weight.dim(0);
    for (std::int64_t i = 0; i < sums.size(); ++i) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        sum += std::fabs(x.Get(i / n * k + l) * weight.Get(i % n * k + l));
      }
      sums.Set(i, sum);
    }
  }
  const std::int64_t n = sums.dim(-1);
  for (std::int64_t i = 0; i < sums.size(); ++i) {
    sums.Set(i, std::fabs(sums.Get(i)) + (bias.size() ? std::fabs(bias.Get(i % n)) : 0));
  }
  return sums;
}

// D(k), or D(k / 32) where the products of a block are added exactly.
Allowed OfBlocks(const Call& call) {
  const bool is_exact = call.op().contract->param("input") >= 0 && call.word("input") == "exact";
  const auto terms = std::make_shared<Array>(AbsoluteTerms(call, is_exact));
  const double k = double(call.array("x").dim(-1)) / (is_exact ? 1 : 32);
  return [=](const Element& e) {
    return 0.51 * e.ulp() + (4 + 2 * std::sqrt(k)) * kU * terms->Get(e.index) * 8 / 7;
  };
}

const OpTest kLinearBlocks{
    .op = "linear_blocks",
    .tolerance = OfBlocks,
    .row_invariant = true,
    .sizes = {"rows = 1, n = 100, g = 18", "rows = 16, n = 33, g = 5", "rows = 7, n = 16, g = 1",
              "rows = 130, n = 17, g = 3",  // 130: two runs of quantized rows
              "rows = 9, n = 40, g = 33",   // 33 blocks: two chunks
              "rows = 3, n = 5, g = 0", "rows = 3, n = 33, s = 2", "rows = 1, n = 40, s = 5"},
    .not_extreme = {{"x", "of NaN 'q8' makes any finite values"}},
    .prepare = MakeNumbersModerate,
};
TEST(LinearBlocks, MatchesItsReference) { CheckAll(kLinearBlocks); }

const OpTest kLinearBlocksPacked{
    .op = "linear_blocks_packed",
    .tolerance = OfBlocks,
    .row_invariant = true,
    .sizes = {"rows = 1, features = 100, n16 = 7, g = 18",
              "rows = 15, features = 33, n16 = 3, g = 5",
              "rows = 130, features = 17, n16 = 2, g = 3", "rows = 3, features = 5, n16 = 1, g = 0",
              "rows = 1, features = 40, n16 = 3, s = 2",
              "rows = 15, features = 17, n16 = 2, s = 1"},
    .not_extreme = {{"x", "of NaN 'q8' makes any finite values"}},
    .prepare = MakeNumbersModerate,
};
TEST(LinearBlocksPacked, MatchesItsReference) { CheckAll(kLinearBlocksPacked); }

const OpTest kPackBlocks{.op = "pack_blocks",
                         .sizes = {"n = 100, g = 18", "n = 32, g = 3", "n = 40, s = 3"}};
TEST(PackBlocks, MatchesItsReference) { CheckAll(kPackBlocks); }

const OpTest kQuantizeBlocks{
    .op = "quantize_blocks",
    .sizes = {"n = 100, g = 18"},
    .not_extreme = {{"*", "the bytes for NaN and infinities are unspecified"}},
};
TEST(QuantizeBlocks, MatchesItsReference) { CheckAll(kQuantizeBlocks); }

const OpTest kDequantizeBlocks{.op = "dequantize_blocks",
                               .sizes = {"n = 100, g = 18", "n = 30, s = 3"},
                               .prepare = MakeNumbersModerate};
TEST(DequantizeBlocks, MatchesItsReference) { CheckAll(kDequantizeBlocks); }

// d and scales are multiplied in f32 before a narrower dtype rounds.
const OpTest kEmbeddingBlocks{
    .op = "embedding_blocks",
    .tolerance = [](const Call&) { return [](const Element& e) { return 0.51 * e.ulp(); }; },
    .row_invariant = true,
    .sizes = {"rows = 5, v = 40, g = 3", "rows = 40, v = 9, s = 2"},
    .prepare = MakeNumbersModerate};
TEST(EmbeddingBlocks, MatchesItsReference) { CheckAll(kEmbeddingBlocks); }

TEST(EmbeddingBlocks, GivesZerosForANegativeIdAndRefusesOneBeyondTheTable) {
  Call call("embedding_blocks");
  Array weight(DType::kU8, {3, 18}), ids(DType::kI64, {4});
  for (std::int64_t i = 0; i < weight.size(); ++i) weight.Set(i, i % 18 == 1 ? 0x3c : 0xff);
  const double rows[] = {2, -1, 0, -7};
  for (std::int64_t i = 0; i < 4; ++i) ids.Set(i, rows[i]);
  call.Set("ids", ids).Set("weight", weight);
  const Array y = call.Run()["y"];
  for (std::int64_t i = 0; i < y.size(); ++i) EXPECT_EQ(y.Get(i) == 0, i / 32 % 2 == 1) << i;
  ids.Set(3, 3);
  EXPECT_EQ(call.Set("ids", ids).Refusal(),
            "embedding_blocks: ids[3] is 3, but must be less than 3 (v).");
}

constexpr const char* kFormats[] = {"q4_0", "q4_1", "q8_0"};
constexpr const char* kAllFormats[] = {"q4_0", "q4_1", "q8_0", "q5_0",
                                       "q5_1", "q4_K", "q5_K", "q6_K"};

// f32 [rows, columns] of values that depend on every index.
Array Waves(std::int64_t rows, std::int64_t columns) {
  Array a(DType::kF32, {rows, columns});
  for (std::int64_t i = 0; i < a.size(); ++i) a.Set(i, std::sin(double(i)));
  return a;
}
Array Quantized(const Array& x, const char* format) {
  Call call("quantize_blocks");
  call.Set("x", x).Set("format", format);
  return call.Run()["weight"];
}

// u8 [n, bytes of k elements]: any quants and scales, moderate numbers.
Array AnyBlocks(std::int64_t n, std::int64_t k, const char* format) {
  Call call("dequantize_blocks");
  call.Set("format", format).Set("weight", Array(DType::kU8, {1, 1}));
  const std::int64_t elements = format[3] == 'K' ? 256 : 32, block = LayoutOf(call).block;
  Array weight(DType::kU8, {n, k / elements * block});
  for (std::int64_t i = 0; i < weight.size(); ++i) weight.Set(i, double(i * i % 255 ^ i % 251));
  call.Set("weight", weight);
  MakeNumbersModerate(call);
  return call.array("weight");
}

TEST(LinearBlocksPacked, GivesTheBitsOfTheRows) {
  for (const char* format : kAllFormats) {
    for (std::int64_t rows : {1, 2, 5, 20}) {
      for (std::int64_t k : {96, 32 * 4, 32 * 18, 32 * 19, 256, 768}) {
        if (format[3] == 'K' && k % 256) continue;
        Call call("linear_blocks"), pack("pack_blocks"), packed("linear_blocks_packed");
        const Array weight = AnyBlocks(53, k, format), x = Waves(rows, k);
        call.Set("x", x).Set("weight", weight).Set("input", "q8").Set("format", format);
        pack.Set("weight", weight).Set("format", format);
        packed.Set("x", x).Set("packed", pack.Run()["packed"]).Set("features", 53);
        packed.Set("format", format);
        EXPECT_EQ(packed.Run()["y"], call.Run()["y"]) << format << " " << rows << " " << k;
      }
    }
  }
}

// The weight of 'exact' and the sums of 'q8' are the same where x is bytes already.
TEST(LinearBlocks, GivesTheProductsWithTheDecodedWeightWhereXIsBytes) {
  for (const char* format : kAllFormats) {
    Array x(DType::kF32, {3, 512});
    for (std::int64_t i = 0; i < x.size(); ++i) x.Set(i, i % 32 ? double(i * 7 % 255) - 127 : 127);
    const Array weight = AnyBlocks(20, 512, format);
    Call call("linear_blocks");
    call.Set("x", x).Set("weight", weight).Set("format", format);
    const Array exact = call.Exact()["y"], terms = AbsoluteTerms(call, true);
    call.Set("input", "q8");
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      const Array& y = results.find("y")->second;
      for (std::int64_t i = 0; i < y.size(); ++i) {
        EXPECT_NEAR(y.Get(i), exact.Get(i), 16 * kU * terms.Get(i)) << kernel << format << i;
      }
    }
  }
}

TEST(LinearBlocks, DoesNotOverflowOnTheLargestQuants) {
  Array weight(DType::kU8, {16, 34}), x(DType::kF32, {1, 32});
  for (std::int64_t i = 0; i < weight.size(); ++i) {
    weight.Set(i, i % 34 == 0 ? 0 : i % 34 == 1 ? 0x3c : 0x80);  // d is 1, quants are -128
  }
  for (double sign : {1, -1}) {
    for (std::int64_t i = 0; i < 32; ++i) x.Set(i, sign * 127);
    Call call("linear_blocks");
    call.Set("x", x).Set("weight", weight).Set("input", "q8").Set("format", "q8_0");
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      EXPECT_EQ(results.find("y")->second.Get(15), -128 * 127 * 32 * sign) << kernel;
    }
  }
}

// Scales of -128 times quants of -32 times bytes of 127: the sums of a block fit f32.
TEST(LinearBlocks, AddsTheLargestQuantsOfSixBitsExactly) {
  Array weight(DType::kU8, {16, 210}), x(DType::kF32, {1, 256});
  for (std::int64_t i = 0; i < weight.size(); ++i) {
    const std::int64_t at = i % 210;
    weight.Set(i, at < 192 || at == 208 ? 0 : at == 209 ? 0x3c : 0x80);
  }
  for (double sign : {1, -1}) {
    for (std::int64_t i = 0; i < 256; ++i) x.Set(i, sign * 127);
    Call call("linear_blocks");
    call.Set("x", x).Set("weight", weight).Set("input", "q8").Set("format", "q6_K");
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      EXPECT_EQ(results.find("y")->second.Get(15), 128.0 * 32 * 127 * 256 * sign) << kernel;
    }
  }
}

TEST(LinearBlocks, KeepsNaNInItsRow) {
  for (const char* format : kAllFormats) {
    for (const char* input : {"exact", "q8"}) {
      Call call("linear_blocks");
      Array x = Waves(3, 256);
      x.Set({1, 40}, std::nan(""));
      call.Set("x", x).Set("weight", AnyBlocks(20, 256, format)).Set("input", input);
      call.Set("format", format);
      const bool is_exact = std::string_view(input) == "exact";
      for (const auto& [kernel, results] : call.RunEveryKernel()) {
        const Array& y = results.find("y")->second;
        for (std::int64_t i = 0; i < y.size(); ++i) {
          EXPECT_EQ(std::isfinite(y.Get(i)), !is_exact || i / 20 != 1) << kernel << format << i;
        }
      }
    }
  }
}

TEST(LinearBlocks, GivesNoNumbersForARowWithAnInfinityAndNumbersForTheOthers) {
  for (const char* format : kAllFormats) {
    for (const char* input : {"exact", "q8"}) {
      for (std::int64_t rows : {1, 3}) {
        Call call("linear_blocks");
        Array x = Waves(rows, 256);
        x.Set({rows / 2, 40}, -std::numeric_limits<double>::infinity());
        call.Set("x", x).Set("weight", AnyBlocks(20, 256, format));
        call.Set("input", input).Set("format", format);
        for (const auto& [kernel, results] : call.RunEveryKernel()) {
          const Array& y = results.find("y")->second;
          for (std::int64_t i = 0; i < y.size(); ++i) {
            EXPECT_EQ(std::isfinite(y.Get(i)), i / 20 != rows / 2) << kernel << format << i;
          }
        }
      }
    }
  }
}

TEST(LinearBlocks, LetsAnOddScaleReachItsOwnFeatureOnly) {
  for (const int high : {0x7c, 0x7e}) {  // infinity, NaN
    Array weight = Quantized(Waves(20, 64), "q4_1");
    weight.Set({7, 20}, 0);
    weight.Set({7, 21}, high);
    for (const char* input : {"exact", "q8"}) {
      Call call("linear_blocks");
      call.Set("x", Waves(3, 64)).Set("weight", weight).Set("input", input).Set("format", "q4_1");
      for (const auto& [kernel, results] : call.RunEveryKernel()) {
        const Array& y = results.find("y")->second;
        for (std::int64_t i = 0; i < y.size(); ++i) {
          EXPECT_EQ(std::isfinite(y.Get(i)), i % 20 != 7) << kernel << input << i;
        }
      }
    }
  }
}

TEST(QuantizeBlocks, GivesZerosForABlockOfZeros) {
  for (const char* format : kFormats) {
    const Array weight = Quantized(Array(DType::kF32, {1, 32}, {0}), format);
    Call back("dequantize_blocks");
    back.Set("weight", weight).Set("format", format);
    const Array x = back.Run()["x"];
    for (std::int64_t i = 0; i < x.size(); ++i) EXPECT_EQ(x.Get(i), 0) << format;
  }
}

// q4_0 takes its scale from the first element of largest magnitude, with its sign.
TEST(QuantizeBlocks, TakesTheFirstOfEqualMagnitudes) {
  for (const double sign : {1.0, -1.0}) {
    for (const std::int64_t first : {0, 5, 14}) {
      Array x(DType::kF32, {1, 32}, {0.5});
      x.Set(first, 2 * sign);
      x.Set(first + 1, -2 * sign);
      x.Set(first + 17, -2 * sign);
      Call call("quantize_blocks");
      call.Set("x", x).Set("format", "q4_0");
      for (const auto& [kernel, results] : call.RunEveryKernel()) {
        const auto* bytes = results.at("weight").data<std::uint8_t>();
        // d = z / -8 = -sign / 4 in f16; the first becomes 0, its opposites 15.
        EXPECT_EQ(bytes[0] | bytes[1] << 8, sign > 0 ? 0xb400 : 0x3400) << kernel << " " << first;
        EXPECT_EQ(bytes[2 + first] & 15, 0) << kernel << " " << first;
        EXPECT_EQ(bytes[2 + first + 1] & 15, 15) << kernel << " " << first;
        EXPECT_EQ(bytes[2 + first + 1] >> 4, 15) << kernel << " " << first;
      }
    }
  }
}

TEST(QuantizeBlocks, TakesAnyNumber) {
  for (double odd : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    for (const char* format : kFormats) {
      Array x = Waves(2, 32);
      x.Set(3, odd);
      const Array weight = Quantized(x, format), plain = Quantized(Waves(2, 32), format);
      const std::int64_t bytes = weight.dim(1);
      for (std::int64_t i = bytes; i < 2 * bytes; ++i) EXPECT_EQ(weight.Get(i), plain.Get(i));
    }
  }
}

TEST(LinearBlocks, RefusesRowsOfAnotherSize) {
  Call call("linear_blocks");
  call.Set("x", Array(DType::kF32, {2, 64})).Set("weight", Array(DType::kU8, {3, 38}));
  EXPECT_EQ(call.Refusal(),
            "linear_blocks: weight is u8[3, 38], but must be u8[3, 36] because x is f32[2, 64].");
}

TEST(LinearBlocksPacked, RefusesBlocksOfAnotherFormat) {
  Call call("linear_blocks_packed");
  call.Set("x", Array(DType::kF32, {2, 64})).Set("packed", Array(DType::kU8, {1, 2, 288}));
  call.Set("features", 16).Set("format", "q8_0");
  EXPECT_EQ(call.Refusal(),
            "linear_blocks_packed: packed is u8[1, 2, 288], but must be u8[1, 2, 544].");
}

TEST(LinearBlocks, RefusesRowsThatAreNoBlocks) {
  Call call("linear_blocks");
  call.Set("x", Array(DType::kF32, {2, 40})).Set("weight", Array(DType::kU8, {3, 18}));
  EXPECT_EQ(call.Refusal(),
            "linear_blocks: the last dimension of x is 40, but must be 32*g, a multiple of 32.");
}

TEST(LinearBlocks, HasAWorkspaceOfOneSizeInNamesAndInNumbers) {
  ExpectTheSameBytes<ops::SizeText>([](const auto& s) {
    using N = std::decay_t<decltype(s[0])>;
    return ops::BlockRowsWorkspace<N>(s[0], s[1], s[2]);
  });
}

TEST(LinearBlocks, HasStripsOfOneSizeInNamesAndInNumbers) {
  ExpectTheSameBytes<ops::SizeText>(
      [](const auto& s) { return ops::StripsWorkspace<std::decay_t<decltype(s[0])>>(s[0]); });
}

TEST(LinearBlocks, RefusesSuperblocksOfAWrongSizeAndUnknownFormats) {
  Call call("linear_blocks");
  call.Set("x", Array(DType::kF32, {1, 512})).Set("format", "q4_K");
  call.Set("weight", Array(DType::kU8, {3, 144}));
  EXPECT_EQ(
      call.Refusal(),
      "linear_blocks: weight is u8[3, 144], but must be u8[3, 288] because x is f32[1, 512].");
  call.Set("x", Array(DType::kF32, {1, 32}));
  EXPECT_EQ(call.Refusal(),
            "linear_blocks: the last dimension of x is 32, but must be 256*s, a multiple of 256.");
  call.Set("input", "exact").Set("format", "q3_K");
  EXPECT_EQ(call.Refusal(),
            "linear_blocks: format is 'q3_K', but must be 'q4_0', 'q4_1', 'q8_0', 'q5_0', 'q5_1', "
            "'q4_K', 'q5_K' or 'q6_K'. Did you mean 'q4_K'?");
}

}  // namespace
}  // namespace anyop::optest::linear_blocks_test
