// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>

#include "anyop/scope.h"
#include "ops/batch_matmul/batch_matmul.h"
#include "optest/gtest/sizes.h"

namespace anyop::optest::batch_matmul_test {
namespace {

const OpTest kBatchMatmul{
    .op = "batch_matmul",
    .tolerance = Sum("k", true),
    .sizes = {"b = 1, m = 16, k = 576, n = 100", "b = 2, m = 18, k = 130, n = 65",
              "b = 5, m = 1, k = 128, n = 512", "b = 3, m = 65, k = 33, n = 70",
              "b = 3, m = 9, k = 1, n = 33",
              "b = 2, m = 520, k = 3, n = 40",     // 520: two runs of packed rows
              "b = 2, m = 35, k = 1030, n = 37",   // 1030: two chunks
              "b = 2, m = 205, k = 256, n = 161",  // large enough to be shared by threads
              "b = 0, m = 2, k = 3, n = 4", "b = 2, m = 0, k = 3, n = 4",
              "b = 2, m = 3, k = 0, n = 4", "b = 2, m = 3, k = 4, n = 0"},
};
TEST(BatchMatmul, MatchesItsReference) { CheckAll(kBatchMatmul); }

const OpTest kBatchMatmulBackward{
    .op = "batch_matmul_backward",
    .tolerance = PerResult({{"dx", Sum("n", true)}, {"dy", Sum("m", true)}}),
    .sizes = {"b = 2, m = 16, k = 100, n = 50", "b = 3, m = 65, k = 33, n = 70",
              "b = 2, m = 520, k = 3, n = 5", "b = 2, m = 5, k = 1, n = 520",
              "b = 2, m = 1030, k = 35, n = 3", "b = 2, m = 3, k = 33, n = 1030",
              "b = 2, m = 205, k = 256, n = 161", "b = 0, m = 2, k = 3, n = 4",
              "b = 2, m = 0, k = 3, n = 4", "b = 2, m = 3, k = 0, n = 4",
              "b = 2, m = 3, k = 4, n = 0"},
};
TEST(BatchMatmulBackward, MatchesItsReference) { CheckAll(kBatchMatmulBackward); }

// [b, rows, columns] of values whose products depend on every index and on the order of sums.
Array Waves(DType dtype, std::int64_t b, std::int64_t rows, std::int64_t columns) {
  Array a(dtype, {b, rows, columns});
  for (std::int64_t i = 0; i < a.size(); ++i) a.Set(i, std::sin(double(i)));
  return a;
}

TEST(BatchMatmul, IsRowInvariantInBatchInvariantMode) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const char* form : {"nn", "nt", "tn"}) {
      Scope scope;
      scope.batch_invariant();
      const bool x_t = std::string_view(form) == "tn", y_t = std::string_view(form) == "nt";
      Call batch("batch_matmul");
      const Array x = x_t ? Waves(dtype, 2, 579, 19) : Waves(dtype, 2, 19, 579);
      batch.Set("x", x).Set("form", form);
      batch.Set("y", y_t ? Waves(dtype, 2, 37, 579) : Waves(dtype, 2, 579, 37));
      const auto together = batch.RunEveryKernel();
      Array row = x_t ? Array(dtype, {2, 579, 1}) : Array(dtype, {2, 1, 579});
      for (std::int64_t b = 0; b < 2; ++b) {
        for (std::int64_t l = 0; l < 579; ++l) {
          x_t ? row.Set({b, l, 0}, x.Get({b, l, 18})) : row.Set({b, 0, l}, x.Get({b, 18, l}));
        }
      }
      Call alone = batch;
      alone.Set("x", row);
      for (const auto& [kernel, results] : alone.RunEveryKernel()) {
        const Array &z = results.find("z")->second, &all = together.find(kernel)->second.at("z");
        for (std::int64_t b = 0; b < 2; ++b) {
          for (std::int64_t j = 0; j < 37; ++j) {
            EXPECT_EQ(z.Get({b, 0, j}), all.Get({b, 18, j})) << kernel << " " << form << " " << j;
          }
        }
      }
    }
  }
}

TEST(BatchMatmul, GivesZerosForSumsOverNoTerms) {
  for (const char* form : {"nn", "nt", "tn"}) {
    const bool x_t = std::string_view(form) == "tn", y_t = std::string_view(form) == "nt";
    Call call("batch_matmul");
    call.Set("x", x_t ? Array(DType::kF32, {2, 0, 3}) : Array(DType::kF32, {2, 3, 0}));
    call.Set("y", y_t ? Array(DType::kF32, {2, 5, 0}) : Array(DType::kF32, {2, 0, 5}));
    call.Set("form", form);
    for (const auto& [kernel, results] : call.RunEveryKernel()) {
      EXPECT_EQ(results.find("z")->second, Array(DType::kF32, {2, 3, 5}, {0})) << kernel << form;
    }
  }
}

TEST(BatchMatmul, KeepsNaNInItsRow) {
  Call call("batch_matmul");
  Array x = Waves(DType::kF32, 2, 5, 21);
  x.Set({1, 3, 20}, std::nan(""));
  call.Set("x", x).Set("y", Waves(DType::kF32, 2, 21, 35));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const Array& z = results.find("z")->second;
    for (std::int64_t i = 0; i < z.size(); ++i) {
      EXPECT_EQ(std::isnan(z.Get(i)), i / 35 == 8) << kernel << " " << i;
    }
  }
}

TEST(BatchMatmul, RefusesInnerSizesThatDiffer) {
  Call call("batch_matmul");
  call.Set("x", Array(DType::kF32, {2, 3, 4})).Set("y", Array(DType::kF32, {2, 5, 6}));
  EXPECT_EQ(call.Refusal(),
            "batch_matmul: y is f32[2, 5, 6], but must be f32[2, 4, 6] because x is f32[2, 3, 4].");
}

TEST(BatchMatmul, RefusesAnUnknownForm) {
  Call call("batch_matmul");
  call.Set("x", Array(DType::kF32, {2, 3, 4})).Set("y", Array(DType::kF32, {2, 4, 6}));
  call.Set("form", "tt");
  EXPECT_EQ(call.Refusal(),
            "batch_matmul: form is 'tt', but must be 'nn', 'nt' or 'tn'. Did you mean 'nt'?");
}

TEST(BatchMatmul, HasAWorkspaceOfOneSizeInNamesAndInNumbers) {
  ExpectTheSameBytes<ops::SizeText>([](const auto& s) {
    using N = std::decay_t<decltype(s[0])>;
    return ops::BatchWorkspace<ops::PairMath<float>, N>(s[0], s[1] * s[2] * s[3], s[1], s[2], s[3]);
  });
}

}  // namespace
}  // namespace anyop::optest::batch_matmul_test
