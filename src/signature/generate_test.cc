// SPDX-License-Identifier: Apache-2.0
#include "signature/generate.h"

#include <gtest/gtest.h>

#include <set>

namespace anyop::generate_test {
namespace {

constexpr const char* kCache =
    "reshape(key: K[t, h, dk], value: V[t, h, dv]?, key_cache: mut C[nb, wk, bs, ck], value_cache: "
    "mut D[nb, wv, "
    "bs, cv]?, slots: I[s] below nb*bs) -> ()\n"
    "    where K in f32 | bf16 | i8, V in f32 | bf16, C in bf16 | i8, D in bf16 | i8, I in i32 | "
    "i64, s <= t, bs >= "
    "1, wk*ck == h*dk, wv*cv == h*dv, ck*bytes(C) == 32, cv*bytes(D) == 32, given(value) == "
    "given(value_cache), "
    "C == K or (C in i8 and K in f32 | bf16), D == V or D in i8";
constexpr const char* kForms =
    "f(x: T[n, k*32], w: 'a' | 'b' = 'a', s: int[2] = [1, 1], top: int = 1) -> (y: T[n - top]) "
    "where T in f32 | "
    "i8, top <= n, k % 3 == 0, s >= 1\n"
    "f(x: T[n, k, m], w: 'b' | 'c', s: int[2], top: int) -> (y: T[n]) where sum(s) == n, m == k or "
    "w == 'c'";

TEST(Generate, MakesNoListThatNoMemoryHolds) {
  Random random(1);
  const char* text = "f(a: int[9223372036854775807]) -> (y: f32[1])";
  EXPECT_FALSE(Generate(*ParseContract(text), random));
}

TEST(Generate, EveryCallPassesItsCheck) {
  const auto c = ParseContract(kCache);
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    const auto g = Generate(*c, random);
    ASSERT_TRUE(g);
    Bindings b;
    std::string error;
    EXPECT_EQ(Check(*c, g->call.frame(), &b, &error), 0) << error;
    EXPECT_EQ(g->call[1].tag == ANYOP_NONE, g->call[3].tag == ANYOP_NONE);
  }
}

TEST(Generate, ReachesEveryFormWordDTypeAndAbsence) {
  const auto c = ParseContract(kForms);
  Random random(2);
  std::set<int> forms, words, dtypes;
  std::set<std::int64_t> sizes;
  for (int i = 0; i < 500; ++i) {
    const auto g = Generate(*c, random);
    ASSERT_TRUE(g);
    forms.insert(g->form);
    words.insert(g->call[1].index);
    dtypes.insert(g->bindings.dtype[0]);
    sizes.insert(g->bindings.var[0]);
  }
  EXPECT_EQ(forms.size(), 2u);
  EXPECT_EQ(words.size(), 3u);
  EXPECT_GE(dtypes.size(), 10u) << "the second form does not restrict T";
  EXPECT_GE(sizes.size(), 6u);
}

TEST(Generate, KeepsWhatIsFixed) {
  const auto c = ParseContract(kForms);
  Random random(3);
  GenerateOptions options;
  options.form = 0;
  options.numbers = {{"n", 5}, {"top", 3}};
  options.dtypes = {{"T", DType::kI8}};
  options.words = {{"w", "b"}};
  options.lists = {{"s", {4, 5}}};
  for (int i = 0; i < 50; ++i) {
    const auto g = Generate(*c, random, options);
    ASSERT_TRUE(g);
    EXPECT_EQ(g->form, 0);
    EXPECT_EQ(g->results[0].shape[0], 2);
    EXPECT_EQ(g->results[0].dtype, DType::kI8);
    EXPECT_EQ(g->call[1].index, 1);
    EXPECT_EQ(g->call[2].is[1], 5);
  }
  options.numbers["top"] = 6;
  EXPECT_FALSE(Generate(*c, random, options)) << "top <= n cannot hold";
}

TEST(Generate, TakesLeadingDimensionsAndPresence) {
  const auto c = ParseContract("f(x: T[..., d], w: T[d]?) -> (y: T[..., d]) where d >= 1");
  Random random(4);
  GenerateOptions options;
  options.lead = Shape{2, 0};
  options.given = {{"w", true}};
  options.numbers = {{"d", 17}};
  const auto g = Generate(*c, random, options);
  ASSERT_TRUE(g);
  EXPECT_EQ(g->results[0].rank, 3);
  EXPECT_EQ(g->results[0].shape[1], 0);
  EXPECT_EQ(g->results[0].shape[2], 17);
  EXPECT_EQ(g->call[1].tag, ANYOP_TENSOR);
  options.given = {{"w", false}};
  EXPECT_EQ(Generate(*c, random, options)->call[1].tag, ANYOP_NONE);
}

TEST(Generate, TheSameSeedGivesTheSameCall) {
  const auto c = ParseContract(kCache);
  Random a(5), b(5);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(Generate(*c, a)->call.Text(), Generate(*c, b)->call.Text());
}

}  // namespace
}  // namespace anyop::generate_test
