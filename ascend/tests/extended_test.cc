// SPDX-License-Identifier: Apache-2.0
// Extended functions against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "anyop_ascend/extended.h"
#include "on_core.h"
#include "stubs/tiling/tiling_api.h"

namespace ascend_tests {
namespace {

// A body of one block with buffers of 8 KiB that hold drawn numbers.
template <class T>
struct Drawn8 {
  TBuf<> buffer;
  LocalTensor<T> tensor;

  Drawn8(TPipe& pipe, std::uint32_t& state) {
    pipe.InitBuffer(buffer, 8192);
    tensor = buffer.Get<T>();
    for (std::uint32_t i = 0; i < tensor.GetSize(); ++i)
      tensor.SetValue(i, static_cast<T>(static_cast<float>(Drawn(state) % 4000) / 500 - 4));
  }
};
template <class T>
std::vector<float> Copied(const LocalTensor<T>& tensor) {
  std::vector<float> values;
  for (std::uint32_t i = 0; i < tensor.GetSize(); ++i)
    values.push_back(static_cast<float>(tensor.data()[i]));
  return values;
}
// Runs a body on a core; it must leave no finding.
template <class F>
void Clean(F body) {
  anyop_ascend_clear();
  OnCores(1, [&] {
    TPipe pipe;
    std::uint32_t state = 17;
    body(pipe, state);
  });
  EXPECT_EQ(Findings().dump(), "[]");
}

TEST(Gelu, IsTheFormWithTanh) {
  Clean([](TPipe& pipe, std::uint32_t& state) {
    Drawn8<float> x(pipe, state), y(pipe, state), z(pipe, state), w(pipe, state);
    Gelu(y.tensor, x.tensor, 300);
    FasterGelu(z.tensor, x.tensor, 300);
    Swish(w.tensor, x.tensor, 300, 0.5f);
    for (int i = 0; i < 300; ++i) {
      const double v = x.tensor.data()[i];
      const double inner = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
      ASSERT_NEAR(y.tensor.data()[i], 0.5 * v * (1 + std::tanh(inner)), 2e-6) << v;
      ASSERT_NEAR(z.tensor.data()[i], v / (1 + std::exp(-1.702 * v)), 2e-6) << v;
      ASSERT_NEAR(w.tensor.data()[i], v / (1 + std::exp(-0.5 * v)), 2e-6) << v;
    }
  });
}
TEST(RmsNorm, NormalizesTheElementsThatCount) {
  Clean([](TPipe& pipe, std::uint32_t& state) {
    Drawn8<half> x(pipe, state), gamma(pipe, state), y(pipe, state);
    Drawn8<std::uint8_t> work(pipe, state);
    RmsNormTiling tiling;
    ASSERT_TRUE(AscendC::GetRmsNormTilingInfo(ge::Shape({2, 3, 48}), ge::Shape({2, 3, 40}), 8192, 2,
                                              tiling));
    const auto before = Copied(y.tensor);
    RmsNorm(y.tensor, x.tensor, gamma.tensor, work.tensor, half(0.01f), tiling);
    for (int r = 0; r < 6; ++r) {
      double sum = 0;
      for (int i = 0; i < 40; ++i) sum += std::pow(double(x.tensor.data()[r * 48 + i]), 2);
      for (int i = 0; i < 40; ++i) {
        const double want = double(x.tensor.data()[r * 48 + i]) / std::sqrt(sum / 40 + 0.01) *
                            double(gamma.tensor.data()[i]);
        ASSERT_NEAR(double(y.tensor.data()[r * 48 + i]), want, 4e-3) << r << ", " << i;
      }
      if (r == 5) continue;
      ASSERT_EQ(float(y.tensor.data()[r * 48 + 40]), before[r * 48 + 40]);
    }
  });
}
TEST(SoftMax, GivesRowsTheirSumsAndMaxima) {
  Clean([](TPipe& pipe, std::uint32_t& state) {
    Drawn8<half> x(pipe, state), y(pipe, state), z(pipe, state);
    Drawn8<float> sum(pipe, state), most(pipe, state);
    SoftMaxTiling tiling;
    AscendC::SoftMaxTilingFunc(ge::Shape({5, 64}), 2, 8192, tiling);
    SoftMax<half>(y.tensor, sum.tensor, most.tensor, x.tensor, tiling, {5, 64, 5, 50});
    SoftMax(z.tensor, x.tensor, tiling);
    for (int r = 0; r < 5; ++r) {
      const half* row = x.tensor.data() + r * 64;
      const auto largest = double(*std::max_element(row, row + 50));
      double total = 0, all = 0;
      for (int i = 0; i < 64; ++i) {
        const double one = std::exp(double(row[i]) - largest);
        all += one;
        if (i < 50) total += one;
      }
      for (int k = 0; k < 8; ++k) {
        ASSERT_EQ(most.tensor.data()[r * 8 + k], largest);
        ASSERT_NEAR(sum.tensor.data()[r * 8 + k], total, 1e-4 * total);
      }
      for (int i = 0; i < 64; ++i) {
        const double one = std::exp(double(row[i]) - largest);
        ASSERT_NEAR(double(z.tensor.data()[r * 64 + i]), one / all, 5e-4);
        if (i >= 50) continue;
        ASSERT_NEAR(double(y.tensor.data()[r * 64 + i]), one / total, 5e-4);
      }
    }
  });
}
TEST(TopK, GivesTheBestOfEachRowWithTheirPlaces) {
  for (const bool is_largest : {true, false}) {
    Clean([&](TPipe& pipe, std::uint32_t& state) {
      Drawn8<float> x(pipe, state), values(pipe, state);
      Drawn8<std::int32_t> indices(pipe, state), given(pipe, state);
      TBuf<> flags;
      pipe.InitBuffer(flags, 32);
      const auto finished = flags.Get<bool>();
      for (std::uint32_t r = 0; r < 4; ++r) finished.SetValue(r, r == 2);
      for (std::uint32_t i = 0; i < 60; ++i) given.tensor.SetValue(i, 1000 + i);
      x.tensor.SetValue(7, x.tensor.GetValue(3));
      TopkTiling tiling;
      TopK<float, true, true>(values.tensor, indices.tensor, x.tensor, given.tensor, finished, 5,
                              tiling, {4, 64, 60}, is_largest);
      for (int r = 0; r < 4; ++r) {
        const float* row = x.tensor.data() + r * 64;
        std::vector<int> order(60);
        for (int i = 0; i < 60; ++i) order[i] = i;
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
          return is_largest ? row[a] > row[b] : row[a] < row[b];
        });
        for (int i = 0; i < 5; ++i) {
          ASSERT_EQ(values.tensor.data()[r * 8 + i], row[order[i]]);
          ASSERT_EQ(indices.tensor.data()[r * 8 + i], r == 2 ? 60 : 1000 + order[i]);
        }
      }
    });
  }
}
TEST(Transpose, MovesChannelsToTheEndAndBack) {
  Clean([](TPipe& pipe, std::uint32_t& state) {
    Drawn8<float> x(pipe, state), y(pipe, state), z(pipe, state);
    Drawn8<std::uint8_t> work(pipe, state);
    TransposeParamsExt p{2, 3, 4, 8, TransposeType::TRANSPOSE_NCHW2NHWC};
    Transpose(y.tensor, x.tensor, work.tensor, p);
    for (int n = 0; n < 2; ++n)
      for (int c = 0; c < 3; ++c)
        for (int i = 0; i < 32; ++i)
          ASSERT_EQ(y.tensor.data()[(n * 32 + i) * 3 + c], x.tensor.data()[(n * 3 + c) * 32 + i]);
    p.transposeType = TransposeType::TRANSPOSE_NHWC2NCHW;
    Transpose(z.tensor, y.tensor, work.tensor, p);
    for (int i = 0; i < 2 * 3 * 32; ++i) ASSERT_EQ(z.tensor.data()[i], x.tensor.data()[i]);
  });
}
TEST(Extended, FunctionsSayWhatTheyDoNotTake) {
  anyop_ascend_clear();
  OnCores(1, [] {
    TPipe pipe;
    std::uint32_t state = 3;
    Drawn8<float> x(pipe, state), y(pipe, state);
    Drawn8<std::int32_t> indices(pipe, state);
    Drawn8<std::uint8_t> work(pipe, state);
    RmsNorm(y.tensor, x.tensor, x.tensor, 0.1f, RmsNormTiling());
    SoftMax(y.tensor, x.tensor, SoftMaxTiling());
    TopK(y.tensor, indices.tensor, x.tensor, indices.tensor, LocalTensor<bool>(), 3, TopkTiling(),
         {1, 33, 33});
    Transpose(y.tensor, x.tensor, work.tensor, {1, 3, 3, 3, TransposeType::TRANSPOSE_NCHW2NHWC});
  });
  const auto found = Findings();
  ASSERT_EQ(found.size(), 4u) << found.dump(1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(found[i]["kind"], "tiling");
  EXPECT_EQ(found[3]["kind"], "transpose");
}

}  // namespace
}  // namespace ascend_tests
