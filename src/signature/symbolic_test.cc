// SPDX-License-Identifier: Apache-2.0
#include "signature/symbolic.h"

#include <gtest/gtest.h>

#include "signature/owned_call.h"

namespace anyop::symbolic_test {
namespace {

constexpr const char* kAttention =
    "paged(query: T[t, hq, dk], cache: i8[nb, bs, hkv, dk], return_lse: bool = False) -> (y: T[t, "
    "hq, dk], lse: "
    "f32[hq, t*return_lse]) where T in f32 | bf16, hkv >= 1, hq % hkv == 0";
constexpr const char* kBlocks =
    "linear(x: T[..., 32*g], weight: u8[n, 18*g], format: 'q4_0' = 'q4_0') -> (y: T[..., n])\n"
    "linear(x: T[..., 32*g], weight: u8[n, 20*g], format: 'q4_1') -> (y: T[..., n])";

std::string Partial(const char* signature, std::string_view arguments, const char* unknown = "") {
  const auto c = ParseContract(signature);
  const OwnedCall call = ParseCall(*c, arguments);
  const std::uint64_t mask = *unknown ? 1ull << c->param(unknown) : 0;
  ResultShape results[kMaxResults];
  std::string error;
  if (InferPartial(*c, call.frame(), mask, results, &error) < 0) return error;
  std::string out;
  for (int i = 0; i < c->n_results(); ++i) {
    DLTensor t{};
    t.dtype = ToDL(results[i].dtype);
    t.ndim = results[i].rank;
    t.shape = results[i].shape;
    out += (i ? ", " : "") + Show(t);
  }
  return out;
}

TEST(InferPartial, PassesUnknownSizesOn) {
  EXPECT_EQ(Partial("f(x: T[..., 2*d]) -> (y: T[..., d])", "x = f32[?, 3, 8]"), "f32[?, 3, 4]");
  EXPECT_EQ(Partial("f(x: T[..., 2*d]) -> (y: T[..., d])", "x = f32[3, ?]"), "f32[3, ?]");
  EXPECT_EQ(Partial("f(x: T[..., 2*d]) -> (y: T[..., d])", "x = f32[?, 7]"),
            "the last dimension of x is 7, but must be 2*d, a multiple of 2.");
}

TEST(InferPartial, AKnownSizeReplacesAnUnknownOne) {
  const char* f = "f(x: T[..., d], w: T[d], z: T[..., 1]) -> (y: T[..., d])";
  EXPECT_EQ(Partial(f, "x = f32[?, ?], w = f32[8], z = f32[4, 1]"), "f32[4, 8]");
  EXPECT_EQ(Partial(kBlocks, "x = f32[?, ?], weight = u8[64, 72]"), "f32[?, 64]");
  EXPECT_EQ(Partial(kBlocks, "x = f32[?, 96], weight = u8[64, 72]"),
            "weight is u8[64, 72], but must be u8[64, 54] because x is f32[?, 96].");
}

TEST(InferPartial, ZeroTimesUnknownIsZero) {
  EXPECT_EQ(Partial(kAttention, "query = bf16[?, 32, 128], cache = i8[?, 16, 8, 128]"),
            "bf16[?, 32, 128], f32[32, 0]");
  EXPECT_EQ(
      Partial(kAttention, "query = bf16[?, 32, 128], cache = i8[?, 16, 8, 128], return_lse = True"),
      "bf16[?, 32, 128], f32[32, ?]");
  EXPECT_EQ(
      Partial(kAttention, "query = bf16[?, 32, 128], cache = i8[?, 16, 8, 128]", "return_lse"),
      "bf16[?, 32, 128], f32[32, ?]");
  EXPECT_EQ(Partial(kAttention, "query = bf16[?, 32, 128], cache = i8[?, 16, 5, 128]"),
            "hq % hkv == 0 must hold, but hq is 32 (query is bf16[?, 32, 128]), hkv is 5 (cache is "
            "i8[?, 16, 5, "
            "128]).");
}

TEST(InferPartial, FormsThatMayFitMustAgree) {
  const char* same =
      "f(x: T[..., d], y: T[..., d]) -> (z: T[..., d])\nf(x: T[..., d], y: T[d]) -> (z: T[..., d])";
  EXPECT_EQ(Partial(same, "x = f32[2, 3], y = f32[...]"), "f32[2, 3]");
  EXPECT_EQ(Partial(same, "x = f32[...], y = f32[3]"), "f32[...]");
  const char* differ = "f(x: T[a, b]) -> (z: T[a, 4])\nf(x: T[a]) -> (z: T[a])";
  EXPECT_EQ(Partial(differ, "x = f32[...]"), "f32[...]");
  EXPECT_EQ(Partial("f(x: T[...], y: T[2]) -> (z: T[..., 3])", "x = f32[...], y = f32[2]"),
            "f32[...]");
  EXPECT_EQ(Partial(kBlocks, "x = f32[2, 64], weight = u8[8, 40]", "format"), "f32[2, 8]");
}

TEST(InferPartial, TheFirstFormThatSurelyFitsIsTheForm) {
  const char* forms = "f(x: T[a, 2*a]) -> (z: T[a])\nf(x: T[...]) -> (z: T[..., 1])";
  EXPECT_EQ(Partial(forms, "x = f32[3, 5]"), "x is f32[3, 5], but must be f32[3, 6].");
  EXPECT_EQ(Partial(forms, "x = f32[3, ?]"), "f32[3]");
  EXPECT_EQ(Partial(forms, "x = f32[...]"), "f32[...]");
}

TEST(InferPartial, ADTypeThatIsNotKnownIsNotGuessed) {
  EXPECT_EQ(Partial("f(x: f32[d], to: dtype) -> (y: to[d]) where to in f32 | bf16",
                    "x = f32[3], to = bf16", "to"),
            "the result y has no dtype: no argument gives to.");
}

TEST(ContractJson, HoldsTheContract) {
  const std::string json = ContractJson(*ParseContract(
      "f(x: T[..., 2*d], i: I[t]? below d, s: int[2] = [1, 2], w: 'a' | 'b' = 'b') -> (y: T[..., "
      "d/2], z: T[..., 2*d] over x) "
      "where T in f32, I in i32, w == 'b' or s >= 1, bytes(T) == 4, size(y) > 0, d / 2.0 > 1"));
  for (const char* part :
       {"{\"name\": \"s\", \"kind\": \"ints\", \"default\": [1, 2]}",
        "\"words\": [\"a\", \"b\"], \"default\": \"b\"", "\"dims\": [\"2*d\"]", "\"below\": \"d\"",
        "\"dims\": [\"d/2\"]", "\"over\": [0]", "\"T in f32\"", "\"w == 'b' or s >= 1\"",
        "\"dtypes\": {\"var\": \"T\"}"}) {
    EXPECT_NE(json.find(part), std::string::npos) << part << "\nin " << json;
  }
}

}  // namespace
}  // namespace anyop::symbolic_test
