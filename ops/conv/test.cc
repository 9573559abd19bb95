// SPDX-License-Identifier: Apache-2.0
#include "optest/optest.h"

#include <cmath>
#include <limits>

namespace anyop::optest::conv_test {
namespace {

const OpTest kPatchEmbed{
    .op = "patch_embed",
    .tolerance = Sum("size(weight) / max(co, 1)", true),
    .row_invariant = true,
    .row_variable = "n",
    .sizes = {"n = 2, ci = 3, h = 29, w = 43, co = 70, kh = 14, kw = 14",
              "n = 1, ci = 2, s = 5, h = 9, w = 13, co = 33, ks = 2, kh = 3, kw = 4",
              "n = 3, ci = 5, h = 16, w = 17, co = 3, kh = 16, kw = 16",
              "n = 600, ci = 1, h = 2, w = 2, co = 5, kh = 2, kw = 2"},
};
TEST(PatchEmbed, MatchesItsReference) { CheckAll(kPatchEmbed); }

const Tolerance kGradients = PerResult({{"dx", Sum("size(weight)", true)},
                                        {"dweight", Sum("size(dy)", true)},
                                        {"dbias", Sum("size(dy)", true)}});

// A product of dy or weight with the zeros that stand for places beyond an edge may be NaN.
const std::map<std::string_view, std::string_view> kBeyondEdges = {
    {"dy", "zeros beyond the edges times an infinity"},
    {"weight", "zeros beyond the edges times an infinity"}};

const OpTest kPatchEmbedBackward{
    .op = "patch_embed_backward",
    .tolerance = kGradients,
    .sizes = {"n = 2, ci = 3, h = 9, w = 13, co = 70, kh = 4, kw = 4",
              "n = 1, ci = 2, s = 5, h = 9, w = 13, co = 33, ks = 2, kh = 3, kw = 4"},
    .not_extreme = kBeyondEdges,
};
TEST(PatchEmbedBackward, MatchesItsReference) { CheckAll(kPatchEmbedBackward); }

const OpTest kConv2d{
    .op = "conv2d",
    .tolerance = Sum("size(weight) / max(co, 1)", true),
    .row_invariant = true,
    .row_variable = "n",
    .sizes = {"n = 2, cg = 3, groups = 1, h = 17, w = 37, co = 40, kh = 3, kw = 3",
              "n = 1, cg = 130, groups = 1, h = 5, w = 9, co = 7, kh = 3, kw = 3",
              "n = 2, cg = 2, groups = 3, h = 8, w = 11, co = 6, kh = 2, kw = 3",
              "n = 1, cg = 1, groups = 5, h = 7, w = 40, co = 10, kh = 3, kw = 3",
              "n = 2, cg = 9, groups = 1, h = 5, w = 9, co = 40, kh = 1, kw = 1",
              "n = 2, cg = 5, groups = 1, h = 7, w = 13, co = 9, kh = 3, kw = 4, "
              "stride = [3, 4], padding = [0, 0], dilation = [1, 1]"},
};
TEST(Conv2d, MatchesItsReference) { CheckAll(kConv2d); }

const OpTest kConv2dBackward{
    .op = "conv2d_backward",
    .tolerance = kGradients,
    .not_extreme = kBeyondEdges,
};
TEST(Conv2dBackward, MatchesItsReference) { CheckAll(kConv2dBackward); }

const OpTest kConv3d{
    .op = "conv3d",
    .tolerance = Sum("size(weight) / max(co, 1)", true),
    .row_invariant = true,
    .row_variable = "n",
    .sizes = {"n = 2, cg = 3, groups = 1, s = 4, h = 5, w = 9, co = 33, ks = 1, kh = 1, kw = 1",
              "n = 1, cg = 2, groups = 2, s = 4, h = 6, w = 19, co = 6, ks = 2, kh = 3, kw = 2",
              "n = 2, cg = 3, groups = 1, s = 5, h = 6, w = 13, co = 9, ks = 2, kh = 3, kw = 4, "
              "stride = [2, 3, 4], padding = [0, 0, 0], dilation = [1, 1, 1]"},
};
TEST(Conv3d, MatchesItsReference) { CheckAll(kConv3d); }

const OpTest kConv3dBackward{
    .op = "conv3d_backward",
    .tolerance = kGradients,
    .not_extreme = kBeyondEdges,
};
TEST(Conv3dBackward, MatchesItsReference) { CheckAll(kConv3dBackward); }

const OpTest kCausalConv2d{
    .op = "causal_conv2d",
    .tolerance = Sum("size(weight) / max(co, 1)", true),
    .row_invariant = true,
    .row_variable = "n",
};
TEST(CausalConv2d, MatchesItsReference) { CheckAll(kCausalConv2d); }

using Shape = std::vector<std::int64_t>;

// Whole numbers whose sums are exact in f32, in any order.
Array Numbers(DType dtype, const Shape& shape, int step) {
  Array a(dtype, shape);
  for (std::int64_t i = 0; i < a.size(); ++i) a.Set(i, double(i * step % 13 - 6));
  return a;
}
void ExpectExact(Call& call, const std::string& what) {
  const Results exact = call.Exact();
  const auto by_kernel = call.RunEveryKernel();
  EXPECT_FALSE(by_kernel.empty());
  for (const auto& [kernel, results] : by_kernel) {
    for (const auto& [name, expected] : exact) {
      const Array& actual = results.find(name)->second;
      for (std::int64_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(actual.Get(i), expected.Get(i)) << kernel << " " << name << " " << i << what;
      }
    }
  }
}

struct Sliding {
  Shape x, weight, stride, padding, dilation;
  std::int64_t groups;
  const char* pad;
};
Call Convolve(const Sliding& s) {
  Call call(s.x.size() == 4 ? "conv2d" : "conv3d");
  call.Set("x", Numbers(DType::kF32, s.x, 7)).Set("weight", Numbers(DType::kF32, s.weight, 5));
  call.Set("bias", Numbers(DType::kF32, {s.weight[0]}, 3)).Set("groups", s.groups);
  call.Set("stride", s.stride).Set("padding", s.padding).Set("dilation", s.dilation);
  call.Set("pad", s.pad);
  return call;
}
const Sliding kSlidings[] = {
    {{2, 3, 12, 40}, {34, 3, 3, 3}, {1, 1}, {1, 2}, {1, 1}, 1, "given"},
    {{1, 4, 13, 37}, {6, 2, 3, 2}, {2, 3}, {2, 1}, {1, 1}, 2, "given"},
    {{2, 2, 17, 15}, {3, 2, 3, 4}, {2, 4}, {3, 4}, {2, 6}, 1, "given"},   // factors in common
    {{1, 2, 11, 12}, {3, 2, 2, 1}, {3, 5}, {0, 4}, {3, 1}, 1, "given"},   // elements without taps
    {{1, 6, 7, 50}, {12, 1, 3, 3}, {1, 2}, {1, 1}, {1, 1}, 6, "given"},   // one channel a group
    {{2, 3, 70, 150}, {3, 1, 3, 5}, {1, 1}, {1, 2}, {1, 1}, 3, "given"},  // bands of an image
    {{1, 2, 40, 160}, {8, 1, 3, 4}, {2, 3}, {4, 9}, {5, 2}, 2, "given"},
    {{1, 1, 9, 300}, {3, 1, 64, 1}, {1, 1}, {40, 0}, {1, 1}, 1, "given"},
    {{2, 3, 9, 11}, {5, 3, 3, 3}, {2, 2}, {9, 9}, {2, 1}, 1, "valid"},
    {{2, 3, 9, 11}, {5, 3, 4, 3}, {1, 1}, {9, 9}, {2, 1}, 1, "same"},
    {{3, 2, 11, 13}, {37, 2, 3, 4}, {3, 4}, {0, 0}, {1, 1}, 1, "given"},  // patches
    {{2, 2, 5, 9, 13}, {3, 2, 2, 3, 4}, {2, 3, 4}, {0, 0, 0}, {1, 1, 1}, 1, "given"},
    {{40, 2, 2, 3, 4}, {35, 2, 2, 3, 4}, {2, 3, 4}, {0, 0, 0}, {1, 1, 1}, 1, "given"},
    {{1, 4, 6, 7, 9}, {4, 2, 3, 2, 3}, {2, 1, 2}, {1, 0, 2}, {1, 2, 1}, 2, "given"},
    {{1, 2, 5, 4, 6}, {3, 2, 2, 3, 4}, {1, 1, 1}, {7, 7, 7}, {1, 1, 1}, 1, "same"},
};

TEST(Conv, GivesItsSumsForAnyStrideDilationPaddingAndGroups) {
  for (const Sliding& s : kSlidings) {
    Call call = Convolve(s);
    ExpectExact(call, "\n" + call.Text());
  }
}

TEST(ConvBackward, GivesItsSumsForAnyStrideDilationPaddingAndGroups) {
  for (const Sliding& s : kSlidings) {
    Call forward = Convolve(s);
    Call call(std::string(forward.op().name) + "_backward");
    call.Set("dy", Numbers(DType::kF32, forward.Run()["y"].shape(), 11));
    for (const char* name : {"x", "weight", "stride", "padding", "dilation", "groups", "pad"}) {
      call.Set(name, forward.argument(name));
    }
    ExpectExact(call, "\n" + call.Text());
  }
}

TEST(Conv, TakesTheMatrixFormWherePatchesDoNotOverlap) {
  const auto is_matrix = [](Sliding s) {
    Call call = Convolve(s);
    return call.RunEveryKernel().count("cpu_portable_matrix") == 1;
  };
  const Sliding planes{{1, 2, 6, 8}, {2, 2, 3, 4}, {3, 4}, {0, 0}, {1, 1}, 1, "given"};
  EXPECT_TRUE(is_matrix(planes));
  const Sliding volume{{1, 1, 4, 6, 8}, {2, 1, 2, 3, 4}, {2, 3, 4}, {0, 0, 0}, {1, 1, 1}, 1,
                       "given"};
  EXPECT_TRUE(is_matrix(volume));
  const auto with = [](Sliding s, auto change) {
    change(s);
    return s;
  };
  EXPECT_TRUE(is_matrix(with(planes, [](Sliding& s) { s.pad = "valid", s.padding = {1, 1}; })));
  EXPECT_FALSE(is_matrix(with(planes, [](Sliding& s) { s.stride[0] = 2; })));
  EXPECT_FALSE(is_matrix(with(planes, [](Sliding& s) { s.stride[1] = 5; })));
  EXPECT_FALSE(is_matrix(with(planes, [](Sliding& s) { s.padding[1] = 1; })));
  EXPECT_FALSE(is_matrix(with(planes, [](Sliding& s) { s.dilation[0] = 2; })));
  EXPECT_FALSE(is_matrix(with(planes, [](Sliding& s) { s.weight[1] = 1, s.groups = 2; })));
  EXPECT_FALSE(is_matrix(with(volume, [](Sliding& s) { s.stride[0] = 1; })));
}

TEST(Conv2d, PutsTheExtraZeroOfSameAtTheEnd) {
  Call call("conv2d");
  call.Set("x", Array(DType::kF32, {1, 1, 1, 4}, {1, 2, 3, 4})).Set("pad", "same");
  call.Set("weight", Array(DType::kF32, {1, 1, 1, 2}, {10, 1}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second, Array(DType::kF32, {1, 1, 1, 4}, {12, 23, 34, 40}))
        << kernel;
  }
}

TEST(Conv2d, MultipliesTheZerosOutside) {
  Call call("conv2d");
  call.Set("x", Array(DType::kF32, {1, 1, 1, 3}, {1, 2, 3})).Set("padding", Shape{0, 1});
  call.Set("weight", Array(DType::kF32, {1, 1, 1, 3}, {1, 1, INFINITY}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const Array& y = results.find("y")->second;
    EXPECT_EQ(y.Get(0), INFINITY) << kernel;
    EXPECT_EQ(y.Get(1), INFINITY) << kernel;
    EXPECT_TRUE(std::isnan(y.Get(2))) << kernel;
  }
}

TEST(Conv2d, GivesTheBiasWithoutChannels) {
  Call call("conv2d");
  call.Set("x", Array(DType::kF32, {1, 0, 2, 2})).Set("weight", Array(DType::kF32, {2, 0, 1, 1}));
  call.Set("bias", Array(DType::kF32, {2}, {3, 4}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("y")->second, Array(DType::kF32, {1, 2, 2, 2}, {3, 3, 3, 3, 4, 4, 4, 4}))
        << kernel;
  }
}

TEST(PatchEmbed, IsConv2dWithTheStrideOfItsKernelAndChannelsLast) {
  Sliding s{{2, 3, 11, 13}, {37, 3, 3, 4}, {3, 4}, {0, 0}, {1, 1}, 1, "given"};
  Call conv = Convolve(s);
  Call call("patch_embed");
  for (const char* name : {"x", "weight", "bias"}) call.Set(name, conv.argument(name));
  const Array planes = conv.Run()["y"];  // [2, 37, 3, 3]
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const Array& y = results.find("y")->second;
    ASSERT_EQ(y.shape(), (Shape{2, 9, 37}));
    for (std::int64_t n = 0; n < 2; ++n) {
      for (std::int64_t q = 0; q < 9; ++q) {
        for (std::int64_t o = 0; o < 37; ++o) {
          ASSERT_EQ(y.Get({n, q, o}), planes.Get({n, o, q / 3, q % 3})) << kernel;
        }
      }
    }
  }
}

TEST(PatchEmbedBackward, GivesZeroToTheRemainder) {
  Call call("patch_embed_backward");
  call.Set("dy", Array(DType::kF32, {1, 1, 1}, {2})).Set("x", Array(DType::kF32, {1, 1, 3, 3}));
  call.Set("weight", Array(DType::kF32, {1, 1, 2, 2}, {1, 2, 3, 4}));
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    EXPECT_EQ(results.find("dx")->second,
              Array(DType::kF32, {1, 1, 3, 3}, {2, 4, 0, 6, 8, 0, 0, 0, 0}))
        << kernel;
  }
}

// Rows [begin, end) of the height.
Array Heights(const Array& a, std::int64_t begin, std::int64_t end) {
  Shape shape = a.shape();
  shape[2] = end - begin;
  Array part(a.dtype(), shape);
  for (std::int64_t i = 0; i < part.size(); ++i) {
    const std::int64_t w = i % shape[3], h = i / shape[3] % shape[2],
                       rest = i / shape[3] / shape[2];
    part.Set(i, a.Get({rest / shape[1], rest % shape[1], begin + h, w}));
  }
  return part;
}
Call Causal(DType dtype, const Shape& stride, std::int64_t groups = 2) {
  Call call("causal_conv2d");
  call.Set("x", Array(dtype, {2, 4, 12, 9})).Set("weight", Array(dtype, {8, 4 / groups, 3, 3}));
  for (const char* name : {"x", "weight"}) {  // sums that depend on their order
    Array& a = call.array(name);
    for (std::int64_t i = 0; i < a.size(); ++i) a.Set(i, std::sin(double(i)));
  }
  call.Set("groups", groups).Set("padding_w", 1).Set("dilation", Shape{2, 1}).Set("stride", stride);
  return call;
}

TEST(CausalConv2d, GivesTheRowsOfTheWholeCallInChunks) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const std::int64_t groups : {1, 2, 4, -2}) {  // 4: each channel alone
      const std::int64_t stride = groups < 0 ? 2 : 1;
      Call whole = Causal(dtype, {stride, 1}, std::abs(groups)), first = whole, second = whole;
      const Array x = whole.array("x");
      first.Set("x", Heights(x, 0, 4));
      second.Set("x", Heights(x, 4, 12)).Set("cache", Heights(x, 0, 4));
      const auto all = whole.RunEveryKernel(), begin = first.RunEveryKernel();
      for (const auto& [kernel, results] : second.RunEveryKernel()) {
        const Array& y = all.find(kernel)->second.find("y")->second;
        const std::int64_t rows = 4 / stride;
        EXPECT_EQ(begin.find(kernel)->second.find("y")->second, Heights(y, 0, rows)) << kernel;
        EXPECT_EQ(results.find("y")->second, Heights(y, rows, 12 / stride)) << kernel;
      }
    }
  }
}

TEST(CausalConv2d, DoesNotSeeLaterRows) {
  Call call = Causal(DType::kF32, {2, 1});
  const auto before = call.RunEveryKernel();
  Array& x = call.array("x");
  for (std::int64_t i = 0; i < x.size(); ++i) {
    if (i / 9 % 12 > 6) x.Set(i, NAN);
  }
  for (const auto& [kernel, results] : call.RunEveryKernel()) {
    const Array& y = before.find(kernel)->second.find("y")->second;
    EXPECT_EQ(Heights(results.find("y")->second, 0, 4), Heights(y, 0, 4)) << kernel;
    EXPECT_TRUE(std::isnan(results.find("y")->second.Get({0, 0, 4, 0}))) << kernel;
  }
}

std::string Refused(Sliding s) { return Convolve(s).Refusal(); }
const Sliding kSmall{{1, 2, 3, 4}, {2, 2, 2, 2}, {1, 1}, {0, 0}, {1, 1}, 1, "given"};

TEST(Conv2d, RefusesImagesSmallerThanTheKernel) {
  Sliding s = kSmall;
  s.weight = {2, 2, 4, 2};
  EXPECT_EQ(
      Refused(s),
      "conv2d: h + 2*padding[0] >= dilation[0]*(kh-1) + 1 must hold, but padding is [0, 0], "
      "dilation is [1, 1], h is 3 (x is f32[1, 2, 3, 4]), kh is 4 (weight is f32[2, 2, 4, 2]).");
  s.dilation = {1, 4}, s.weight = {2, 2, 2, 2};
  EXPECT_EQ(
      Refused(s),
      "conv2d: w + 2*padding[1] >= dilation[1]*(kw-1) + 1 must hold, but padding is [0, 0], "
      "dilation is [1, 4], w is 4 (x is f32[1, 2, 3, 4]), kw is 2 (weight is f32[2, 2, 2, 2]).");
  s.pad = "valid", s.padding = {9, 9};
  EXPECT_EQ(Refused(s),
            "conv2d: w >= dilation[1]*(kw-1) + 1 must hold, but dilation is [1, 4], w is 4 (x is "
            "f32[1, 2, 3, 4]), kw is 2 (weight is f32[2, 2, 2, 2]).");
  s.pad = "same";
  Call call = Convolve(s);
  ExpectExact(call, " same has no smallest image");
}

TEST(Conv2d, RefusesStridesDilationsAndGroupsOfZeroAndNegativePadding) {
  Sliding s = kSmall;
  s.stride = {1, 0};
  EXPECT_EQ(Refused(s), "conv2d: stride >= 1 must hold, but stride[1] is 0, stride is [1, 0].");
  s = kSmall, s.dilation = {0, 1};
  EXPECT_EQ(Refused(s),
            "conv2d: dilation >= 1 must hold, but dilation[0] is 0, dilation is [0, 1].");
  s = kSmall, s.padding = {0, -1};
  EXPECT_EQ(Refused(s),
            "conv2d: padding >= 0 must hold, but padding[1] is -1, padding is [0, -1].");
  s = kSmall, s.groups = 0;
  EXPECT_EQ(
      Refused(s),
      "conv2d: dimension 1 of x is 2, but must be cg*groups, which is 0 because groups is 0.");
  s = kSmall, s.groups = 2, s.weight = {3, 1, 2, 2};
  EXPECT_EQ(
      Refused(s),
      "conv2d: co % groups == 0 must hold, but groups is 2, co is 3 (weight is f32[3, 1, 2, 2]).");
  s = kSmall, s.stride = {2, 1}, s.pad = "same";
  EXPECT_EQ(Refused(s), "conv2d: stride == 1 must hold, but stride[0] is 2, stride is [2, 1].");
  s = kSmall, s.weight = {2, 2, 0, 2};
  EXPECT_EQ(Refused(s), "conv2d: kh >= 1 must hold, but kh is 0 (weight is f32[2, 2, 0, 2]).");
  s = kSmall, s.weight = {2, 3, 2, 2};
  EXPECT_EQ(Refused(s),
            "conv2d: weight is f32[2, 3, 2, 2], but must be f32[2, 2, 2, 2] because x is f32[1, 2, "
            "3, 4].");
  s = kSmall, s.stride = {1, 1, 1};
  EXPECT_EQ(Refused(s), "conv2d: stride is [1, 1, 1], but must have length 2.");
}

TEST(Conv2dBackward, RefusesAGradientOfAnotherSize) {
  Call call("conv2d_backward");
  for (const char* name : {"x", "weight", "stride", "padding", "dilation", "groups", "pad"}) {
    call.Set(name, Convolve(kSmall).argument(name));
  }
  call.Set("dy", Array(DType::kF32, {1, 2, 2, 2}));
  EXPECT_EQ(
      call.Refusal(),
      "conv2d_backward: wo == (w + 2*padding[1] - dilation[1]*(kw-1) - 1)/stride[1] + 1 must hold, "
      "but stride is [1, 1], padding is [0, 0], dilation is [1, 1], wo is 2 (dy is f32[1, 2, 2, "
      "2]), w is 4 (x is f32[1, 2, 3, 4]), kw is 2 (weight is f32[2, 2, 2, 2]).");
}

TEST(PatchEmbed, TakesImagesSmallerThanAPatchAndRefusesPatchesWithoutPixels) {
  Call call("patch_embed");
  call.Set("x", Array(DType::kF32, {1, 2, 3, 9})).Set("weight", Array(DType::kF32, {4, 2, 4, 4}));
  EXPECT_EQ(call.Run()["y"].shape(), (Shape{1, 0, 4}));
  call.Set("weight", Array(DType::kF32, {4, 2, 0, 4}));
  EXPECT_EQ(call.Refusal(),
            "patch_embed: kh >= 1 must hold, but kh is 0 (weight is f32[4, 2, 0, 4]).");
  Call backward("patch_embed_backward");
  backward.Set("x", call.argument("x")).Set("weight", Array(DType::kF32, {4, 2, 3, 4}));
  backward.Set("dy", Array(DType::kF32, {1, 3, 4}));
  EXPECT_EQ(backward.Refusal(),
            "patch_embed_backward: q == h/kh * (w/kw) must hold, but q is 3 (dy is f32[1, 3, 4]), "
            "h is 3 (x is f32[1, 2, 3, 9]), w is 9 (x is f32[1, 2, 3, 9]), kh is 3 (weight is "
            "f32[4, 2, 3, 4]), kw is 4 (weight is f32[4, 2, 3, 4]).");
}

TEST(CausalConv2d, RefusesACacheOfAnotherHeight) {
  Call call = Causal(DType::kF32, {1, 1});
  call.Set("cache", Array(DType::kF32, {2, 4, 3, 9}));
  EXPECT_EQ(call.Refusal(),
            "causal_conv2d: hc == dilation[0]*(kh-1) must hold, but dilation is [2, 1], kh is 3 "
            "(weight is f32[8, 2, 3, 3]), hc is 3 (cache is f32[2, 4, 3, 9]).");
}

}  // namespace
}  // namespace anyop::optest::conv_test
