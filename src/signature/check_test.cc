// SPDX-License-Identifier: Apache-2.0
#include "signature/check.h"

#include <gtest/gtest.h>

#include "anyop/storage.h"
#include "signature/owned_call.h"

namespace anyop::check_test {
namespace {

constexpr const char* kRmsNorm =
    "rms_norm(x: T[..., d], weight: T[d]?, eps: float = 1e-6, weight_offset: float = 0.0)"
    " -> (y: T[..., d] over x)\n    where T in f32 | f16 | bf16, d >= 1, eps >= 0";
constexpr const char* kSiluAndMul =
    "silu_and_mul(x: T[..., 2*d]) -> (y: T[..., d]) where T in f32 | f16 | bf16";
constexpr const char* kRotary =
    "rotary_embedding(positions: I[t]? below p, query: mut T[t, hq, d], key: mut T[t, hkv, d]?, "
    "cos_sin_cache: C[p, r], offset: int = 0, style: 'neox' | 'gptj' = 'neox', inverse: bool = "
    "False) -> ()\n    where T in f32 | f16 | bf16, C in f32 | f16 | bf16, I in i32 | i64, r % 2 "
    "== 0, offset >= 0, offset + r <= d, given(positions) or p == t";
constexpr const char* kMatmul =
    "matmul(x: T[b, m, k], y: T[b, k, n], form: 'nn' = 'nn') -> (z: T[b, m, n]) where T in f32\n"
    "matmul(x: T[b, m, k], y: T[b, n, k], form: 'nt') -> (z: T[b, m, n]) where T in f32";
constexpr const char* kConv =
    "conv(x: T[n, cg*groups, h], weight: T[co, cg, kh], stride: int[1] = [1], groups: int = 1)\n"
    "    -> (y: T[n, co, (h - kh)/stride[0] + 1])\n"
    "    where T in f32, groups >= 1, co % groups == 0, stride >= 1, h >= kh";

// The shapes of the results, "y = f32[2, 3]", or the error.
std::string Answer(const Contract& contract, std::string_view call) {
  const OwnedCall c = ParseCall(contract, call);
  Bindings bindings;
  std::string error;
  const int form = Check(contract, c.frame(), &bindings, &error);
  ResultShape results[kMaxResults];
  if (form < 0 || !InferResults(contract, form, bindings, c.frame(), results, &error)) return error;
  std::string out;
  for (int i = 0; i < contract.n_results(); ++i) {
    DLTensor t{};
    t.dtype = ToDL(results[i].dtype);
    t.ndim = results[i].rank;
    t.shape = results[i].shape;
    out += (i ? ", " : "") + std::string(contract.forms[0].results[std::size_t(i)].name) + " = " +
           Show(t);
  }
  return out;
}
std::string Answer(const char* signature, std::string_view call) {
  return Answer(*ParseContract(signature), call);
}

TEST(ParseCall, PutsTensorsOnTheDeviceButForPlannedOnesAndKeepsEachDType) {
  const auto contract =
      ParseContract("f(x: f32[n], lists: f32[n]*, n_rows: planned i64[b]) -> (y: f32[n])");
  const DLDevice device{2, 1};  // cuda:1
  const OwnedCall on_device =
      ParseCall(*contract, "x = f32[2], lists = [f32[2], i8[2]], n_rows = i64[3]", device);
  const OwnedCall on_host = ParseCall(*contract, "x = f32[2]");
  EXPECT_TRUE(IsHost(on_host[0].t->device));
  for (const DLTensor* t : {on_device[0].t, on_device[1].ts[0], on_device[1].ts[1]}) {
    EXPECT_EQ(t->device.device_type, device.device_type);
    EXPECT_EQ(t->device.device_id, device.device_id);
  }
  EXPECT_TRUE(IsHost(on_device[2].t->device));
  EXPECT_EQ(FromDL(on_device[1].ts[0]->dtype), int(DType::kF32));
  EXPECT_EQ(FromDL(on_device[1].ts[1]->dtype), int(DType::kI8));
}

TEST(Check, SaysWhatTheSpecificationShows) {
  EXPECT_EQ(Answer(kRmsNorm, "x = bf16[2, 4096], weight = bf16[4095]"),
            "weight is bf16[4095], but must be bf16[4096] because x is bf16[2, 4096].");
  EXPECT_EQ(Answer(kRmsNorm, "x = i8[2, 8]"),
            "x is i8[2, 8], but T must be f32, f16 or bf16. Try a cast.");
  EXPECT_EQ(Answer(kSiluAndMul, "x = f32[3, 7]"),
            "the last dimension of x is 7, but must be 2*d, a multiple of 2.");
  EXPECT_EQ(Answer(kRotary,
                   "query = f32[4, 2, 64], cos_sin_cache = f32[100, 32], offset = 40, positions = "
                   "i32[4]"),
            "offset + r <= d must hold, but offset is 40, d is 64 (query is f32[4, 2, 64]), r is "
            "32 (cos_sin_cache is f32[100, 32]).");
}

TEST(Check, InfersResults) {
  EXPECT_EQ(Answer(kRmsNorm, "x = bf16[2, 3, 8]"), "y = bf16[2, 3, 8]");
  EXPECT_EQ(Answer(kRmsNorm, "x = f32[0, 8], weight = f32[8]"), "y = f32[0, 8]");
  EXPECT_EQ(Answer(kSiluAndMul, "x = f16[5, 14]"), "y = f16[5, 7]");
  EXPECT_EQ(Answer(kMatmul, "x = f32[1, 2, 3], y = f32[1, 4, 3], form = 'nt'"), "z = f32[1, 2, 4]");
  EXPECT_EQ(Answer(kConv, "x = f32[2, 6, 9], weight = f32[4, 3, 3], groups = 2, stride = [2]"),
            "y = f32[2, 4, 4]");
}

TEST(Check, RefusesMissingArgumentsAndWrongKinds) {
  EXPECT_EQ(Answer(kRmsNorm, "eps = 1.0"), "x is missing, but must be T[..., d].");
  EXPECT_EQ(Answer(kRmsNorm, "x = 3"), "x is 3, but must be a tensor.");
  EXPECT_EQ(Answer(kRmsNorm, "x = f32[8], eps = f32[1]"), "eps is f32[1], but must be a float.");
}

TEST(Check, RefusesRanks) {
  EXPECT_EQ(Answer(kRotary, "query = f32[4, 64], cos_sin_cache = f32[4, 32]"),
            "query is f32[4, 64] of rank 2, but must be T[t, hq, d] of rank 3.");
  EXPECT_EQ(Answer(kRmsNorm, "x = f32[]"),
            "x is f32[] of rank 0, but must be T[..., d] of rank at least 1.");
  EXPECT_EQ(Answer(kRmsNorm, "x = f32[1, 1, 1, 1, 1, 1, 1, 1, 1]"),
            "x is f32[1, 1, 1, 1, 1, 1, 1, 1, 1] of rank 9, but must be T[..., d] of rank at least "
            "1 and at most 8.");
}

TEST(Check, RefusesDTypes) {
  EXPECT_EQ(Answer(kRmsNorm, "x = f32[2, 8], weight = bf16[8]"),
            "weight is bf16[8], but must be f32[8] because x is f32[2, 8]. Try a cast to f32.");
  const char* cast = "cast(x: i8[n], y: to[n], scale: f32 | bf16[n], to: dtype = f32) -> ()";
  EXPECT_EQ(Answer(cast, "x = i8[3], y = f16[3], scale = f32[3]"),
            "y is f16[3], but must be f32[3] because to is f32. Try a cast to f32.");
  EXPECT_EQ(Answer(cast, "x = i8[3], y = f32[3], scale = f16[3]"),
            "scale is f16[3], but its dtype must be f32 or bf16. Try a cast.");
  EXPECT_EQ(Answer("f(to: dtype) -> (y: to[1]) where to in f32 | bf16", "to = i8"),
            "to is i8, but must be f32 or bf16.");
}

// So that no kernel which was written before these dtypes meets one.
TEST(Check, TakesLaterDTypesOnlyWhereTheSignatureNamesThem) {
  const char* any = "f(x: T[n], y: T[n]) -> (z: T[n])";
  EXPECT_EQ(Answer(any, "x = u8[2], y = u8[2]"), "z = u8[2]");
  EXPECT_EQ(Answer(any, "x = u16[2], y = u16[2]"),
            "x is u16[2], but the signature names no u16. Try a cast.");
  EXPECT_EQ(Answer("f(x: T[n]*, y: T[n]) -> (z: T[n])", "x = [c64[2]], y = c64[2]"),
            "x[0] is c64[2], but the signature names no c64. Try a cast.");
  EXPECT_EQ(Answer("f(to: dtype) -> (y: to[1])", "to = c64"),
            "to is c64, but the signature names no c64. Try another dtype.");
  EXPECT_EQ(Answer("f(x: to[n], to: dtype?) -> (y: f32[n])", "x = u64[2]"),
            "x is u64[2], but the signature names no u64. Try a cast.");
  EXPECT_EQ(Answer(kRmsNorm, "x = c64[2, 8]"),
            "x is c64[2, 8], but T must be f32, f16 or bf16. Try a cast.");
}

// One row of the list is enough for the whole contract.
TEST(Check, TakesEveryDTypeOfTheList) {
  for (const DTypeRow& row : kDTypeRows) {
    const std::string t(row.name), call = "x = " + t + "[2, 3]";
    const std::string named = "f(x: " + t + "[n, m]) -> (y: " + t + "[m, n])";
    EXPECT_EQ(Answer(named.c_str(), call), "y = " + t + "[3, 2]");
    const std::string variable = "f(x: T[n, m], to: dtype = " + t + ") -> (y: to[m], z: T[n]) " +
                                 "where T in f32 | " + (t == "f32" ? "f16" : t) + ", to == " + t;
    EXPECT_EQ(Answer(variable.c_str(), call + ", to = " + t), "y = " + t + "[3], z = " + t + "[2]");
    const DType d = DType(FindDType(row.name));
    EXPECT_EQ(FromDL(ToDL(d)), int(d));
    EXPECT_EQ(VisitStorage(d, [](auto zero) { return int(sizeof zero); }), Bytes(d)) << t;
    EXPECT_EQ(VisitStorage(d, [](auto zero) { return kDTypeOf<decltype(zero)>; }), int(d)) << t;
  }
}

TEST(Check, RefusesLeadingDimensions) {
  EXPECT_EQ(
      Answer("add(x: T[..., d], y: T[..., d]) -> (z: T[..., d])", "x = f32[2, 8], y = f32[3, 8]"),
      "y is f32[3, 8], but must be f32[2, 8] because x is f32[2, 8].");
}

TEST(Check, ShowsTheSizesOfItsOwnWhereNothingElseFixesThem) {
  EXPECT_EQ(Answer("f(x: T[n, d], w: T[k, d]) -> ()", "x = f32[2, 3], w = f32[7, 4]"),
            "w is f32[7, 4], but must be f32[7, 3] because x is f32[2, 3].");
  EXPECT_EQ(Answer("f(x: f32[d, d]) -> ()", "x = f32[2, 3]"),
            "x is f32[2, 3], but must be f32[2, 2].");
  EXPECT_EQ(Answer("f(n: int, x: f32[n, 4]) -> ()", "x = f32[2, 4], n = 3"),
            "x is f32[2, 4], but must be f32[3, 4] because n is 3.");
}

TEST(Check, TheFirstFormWhoseWordsAndRanksFitIsTheForm) {
  const char* two =
      "f(x: T[..., d], y: T[..., d]) -> (z: T[1])\nf(x: T[..., d], y: T[d]) -> (z: T[2])";
  EXPECT_EQ(Answer(two, "x = f32[4], y = f32[4]"), "z = f32[1]");
  EXPECT_EQ(Answer(two, "x = f32[3, 4], y = f32[4]"), "z = f32[2]");
  EXPECT_EQ(Answer(two, "x = f32[3, 4], y = f32[3]"),
            "y is f32[3], but must be f32[4] because x is f32[3, 4].");
  EXPECT_EQ(
      Answer(two, "x = f32[3, 4], y = f32[1, 3, 4]"),
      "no form takes these words and ranks: x is f32[3, 4] and y is f32[1, 3, 4]. The forms are "
      "(x: T[..., d], y: T[..., d]) and (x: T[..., d], y: T[d]).");
  EXPECT_EQ(
      Answer(kMatmul, "x = f32[2, 3], y = f32[1, 2, 3], form = 'nt'"),
      "no form takes these words and ranks: x is f32[2, 3], y is f32[1, 2, 3] and form is 'nt'. "
      "The forms are (x: T[b, m, k], y: T[b, k, n], form: 'nn') and (x: T[b, m, k], y: T[b, n, "
      "k], form: 'nt').");
}

TEST(Check, RefusesUnknownWords) {
  EXPECT_EQ(Answer("f(x: f32[n], act: 'none' | 'silu' = 'none') -> ()", "x = f32[1], act = 'sulu'"),
            "act is 'sulu', but must be 'none' or 'silu'. Did you mean 'silu'?");
  EXPECT_EQ(Answer(kMatmul, "x = f32[1, 2, 3], y = f32[1, 3, 2], form = 'nnn'"),
            "form is 'nnn', but must be 'nn' or 'nt'. Did you mean 'nn'?");
}

TEST(Check, SolvesSumsAndProducts) {
  EXPECT_EQ(Answer("f(x: T[b+1]) -> (y: T[b])", "x = f32[5]"), "y = f32[4]");
  EXPECT_EQ(Answer("f(x: T[b+1]) -> (y: T[b])", "x = f32[0]"),
            "the last dimension of x is 0, but must be b+1, at least 1.");
  EXPECT_EQ(Answer("f(x: T[3*(10 - b)]) -> (y: T[b])", "x = f32[12]"), "y = f32[6]");
  EXPECT_EQ(Answer("f(x: T[3*(10 - b)]) -> (y: T[b])", "x = f32[33]"),
            "the last dimension of x is 33, but must be 3*(10-b), where b would be -1.");
  EXPECT_EQ(Answer("f(x: T[2*b + 1]) -> (y: T[b])", "x = f32[4]"),
            "the last dimension of x is 4, but must be 2*b+1, where 2*b would be 3.");
  EXPECT_EQ(Answer("f(x: T[2*(b + 1)]) -> (y: T[b])", "x = f32[0]"),
            "the last dimension of x is 0, but must be 2*(b+1), where b would be -1.");
  EXPECT_EQ(Answer("f(x: T[n*k], k: int) -> (y: T[n])", "x = f32[4], k = 0"),
            "the last dimension of x is 4, but must be n*k, which is 0 because k is 0.");
  EXPECT_EQ(Answer("f(x: T[-b]) -> (y: T[b])", "x = f32[4]"),
            "the last dimension of x is 4, but must be -b, where b would be -4.");
  EXPECT_EQ(Answer("f(s: int[2*(b + 1)]) -> (y: f32[b])", "s = []"),
            "s is [], but must have length 2*(b+1), where b would be -1.");
  EXPECT_EQ(Answer(kConv, "x = f32[2, 7, 9], weight = f32[4, 3, 3], groups = 2"),
            "dimension 1 of x is 7, but must be cg*groups, a multiple of 2 because groups is 2.");
}

TEST(Check, WaitsUntilOneVariableIsLeft) {
  const char* f = "f(x: T[h*w, c + r], h_only: T[h], r_only: T[r]) -> (y: T[h, w, c])";
  EXPECT_EQ(Answer(f, "x = f32[12, 10], h_only = f32[3], r_only = f32[4]"), "y = f32[3, 4, 6]");
  EXPECT_EQ(Answer(f, "x = f32[13, 10], h_only = f32[3], r_only = f32[4]"),
            "dimension 0 of x is 13, but must be h*w, a multiple of 3 because h_only is f32[3].");
  EXPECT_EQ(Answer(f, "x = f32[12, 3], h_only = f32[3], r_only = f32[4]"),
            "the last dimension of x is 3, but must be c+r, at least 4 because r_only is f32[4].");
}

TEST(Check, BindsAndSolvesThroughLists) {
  const char* f =
      "f(xs: T[n, d]*, sizes: int[a], ys: T[a, d]) -> (z: T[n, a]) where len(xs) >= 1, sizes >= 0";
  EXPECT_EQ(Answer(f, "xs = [f32[2, 3], f32[2, 3]], sizes = [4, 5], ys = f32[2, 3]"),
            "z = f32[2, 2]");
  EXPECT_EQ(Answer(f, "xs = [f32[2, 3], f32[1, 3]], sizes = [4, 5], ys = f32[2, 3]"),
            "xs[1] is f32[1, 3], but must be f32[2, 3] because xs[0] is f32[2, 3].");
  EXPECT_EQ(Answer(f, "xs = [], sizes = [4, 5], ys = f32[2, 3]"),
            "len(xs) >= 1 must hold, but xs is [].");
  EXPECT_EQ(Answer(f, "xs = [f32[2, 3]], sizes = [4, -5], ys = f32[2, 3]"),
            "sizes >= 0 must hold, but sizes[1] is -5, sizes is [4, -5].");
  EXPECT_EQ(Answer("f(s: int[2]) -> ()", "s = [1, 2, 3]"),
            "s is [1, 2, 3], but must have length 2.");
}

TEST(Check, NamesTheElementOfAListThatIsWrong) {
  const char* f = "f(x: T[n], xs: T[..., 2*d]*) -> (y: T[n])";
  EXPECT_EQ(Answer(f, "x = f32[2], xs = [f32[3, 4], f32[3, 4], f32[2, 4]]"),
            "xs[2] is f32[2, 4], but must be f32[3, 4] because xs[0] is f32[3, 4].");
  EXPECT_EQ(Answer(f, "x = f32[2], xs = [bf16[4], bf16[4]]"),
            "xs[0] is bf16[4], but must be f32[..., 4] because x is f32[2]. Try a cast to f32.");
  EXPECT_EQ(Answer(f, "x = f32[2], xs = [f32[4], f32[]]"),
            "xs[1] is f32[] of rank 0, but must be T[..., 2*d] of rank at least 1.");
  EXPECT_EQ(Answer(f, "x = f32[2], xs = [f32[7]]"),
            "the last dimension of xs[0] is 7, but must be 2*d, a multiple of 2.");
  EXPECT_EQ(Answer("f(xs: T[n]*) -> () where T in f32 | bf16", "xs = [i8[4], i8[4]]"),
            "xs[0] is i8[4], but T must be f32 or bf16. Try a cast.");
  const char* g = "f(g: float[], limit: float = 0.5) -> () where g < 1, -1 <= g, g != limit";
  EXPECT_EQ(Answer(g, "g = [0.25, 1.0]"), "g < 1 must hold, but g[1] is 1.0, g is [0.25, 1.0].");
  EXPECT_EQ(Answer(g, "g = [-2.0]"), "-1 <= g must hold, but g[0] is -2.0, g is [-2.0].");
  EXPECT_EQ(Answer(g, "g = [0.25, 0.5]"),
            "g != limit must hold, but g[1] is 0.5, g is [0.25, 0.5], limit is 0.5.");
}

TEST(Check, UnknownConditionsDoNotRefuse) {
  const char* f =
      "f(x: T[n], limit: float?, w: T[k]?, m: int = 0) -> () where limit > 0, k >= 2, given(w) or "
      "m == 0, "
      "k * m == 0";
  EXPECT_EQ(Answer(f, "x = f32[1]"), "");
  EXPECT_EQ(Answer(f, "x = f32[1], limit = 0.0"), "limit > 0 must hold, but limit is 0.0.");
  EXPECT_EQ(Answer(f, "x = f32[1], w = f32[1]"), "k >= 2 must hold, but k is 1 (w is f32[1]).");
  EXPECT_EQ(Answer(f, "x = f32[1], m = 1"), "given(w) or m == 0 must hold, but w is None, m is 1.");
}

TEST(Check, ConditionsAreCheckedFromTheLeft) {
  const char* f = "f(x: f32[n], k: int) -> () where k >= 1, n % k == 0, n / k >= 2";
  EXPECT_EQ(Answer(f, "x = f32[4], k = 0"), "k >= 1 must hold, but k is 0.");
  EXPECT_EQ(Answer(f, "x = f32[4], k = 3"),
            "n % k == 0 must hold, but k is 3, n is 4 (x is f32[4]).");
}

TEST(Check, RefusesDivisionByZeroAndOverflow) {
  EXPECT_EQ(Answer("f(x: f32[n], k: int) -> () where n % k == 0", "x = f32[4], k = 0"),
            "n%k == 0 divides by zero: k is 0, n is 4 (x is f32[4]).");
  EXPECT_EQ(Answer("f(k: int) -> () where k * k * 16 > 0", "k = 4611686018427387904"),
            "k*k*16 > 0 goes beyond 63 bits: k is 4611686018427387904.");
  EXPECT_EQ(Answer("f(n: int) -> (y: f32[n, n])", "n = 3037000500"),
            "the result y would be larger than 63 bits can count.");
  EXPECT_EQ(Answer("f(n: int) -> (y: f32[n - 4])", "n = 3"),
            "the result y has a dimension n-4 that would be -1: n is 3.");
  EXPECT_EQ(Answer("f(n: int, k: int) -> (y: f32[n / k])", "n = 3, k = 0"),
            "the result y: n/k divides by zero: n is 3, k is 0.");
}

TEST(Check, DivisionFloors) {
  EXPECT_EQ(Answer("f(n: int) -> (y: f32[10 + n/2, n % 4, ceil_div(10, 4)])", "n = -3"),
            "y = f32[8, 1, 3]");
}

TEST(Check, ABooleanMakesAResultOptional) {
  const char* f = "f(x: T[t], lse: bool = False) -> (y: T[t], l: f32[2, t*lse])";
  EXPECT_EQ(Answer(f, "x = bf16[3]"), "y = bf16[3], l = f32[2, 0]");
  EXPECT_EQ(Answer(f, "x = bf16[3], lse = True"), "y = bf16[3], l = f32[2, 3]");
}

TEST(Check, GivenResultsMustFit) {
  EXPECT_EQ(Answer(kSiluAndMul, "x = f32[2, 8], y = f32[2, 4]"), "y = f32[2, 4]");
  EXPECT_EQ(Answer(kSiluAndMul, "x = f32[2, 8], y = f32[2, 8]"),
            "y is f32[2, 8], but must be f32[2, 4] because x is f32[2, 8].");
  EXPECT_EQ(Answer(kSiluAndMul, "x = f32[2, 8], y = f16[2, 4]"),
            "y is f16[2, 4], but must be f32[2, 4] because x is f32[2, 8]. Try a tensor of f32.");
  EXPECT_EQ(Answer(kSiluAndMul, "x = f32[2, 8], y = f32[4]"),
            "y is f32[4], but must be f32[2, 4] because x is f32[2, 8].");
  EXPECT_EQ(Answer(kSiluAndMul, "x = f32[2, 8], y = 3"), "y is 3, but must be a tensor.");
}

TEST(Check, NumbersOutOfTheKeyAreCheckedPerCall) {
  const auto c = ParseContract(kRmsNorm);
  EXPECT_FALSE(c->key_params >> c->param("eps") & 1);
  std::string error;
  EXPECT_TRUE(CheckScalars(*c, 0, ParseCall(*c, "x = f32[8], eps = 0.0").frame(), &error));
  EXPECT_FALSE(CheckScalars(*c, 0, ParseCall(*c, "x = f32[8], eps = -1.0").frame(), &error));
  EXPECT_EQ(error, "eps >= 0 must hold, but eps is -1.0.");
  OwnedCall nan = ParseCall(*c, "x = f32[8]");
  nan.SetFloat(c->param("eps"), 0.0 / 0.0);
  EXPECT_FALSE(CheckScalars(*c, 0, nan.frame(), &error));
  const auto r = ParseContract(kRotary);
  EXPECT_TRUE(r->key_params >> r->param("offset") & 1);
  EXPECT_TRUE(CheckScalars(*r, 0, nullptr, &error)) << "offset is in the key: checked per plan";
}

TEST(Check, ConstantsMayStandOnTheLeft) {
  const auto c = ParseContract("f(a: float, b: int) -> () where 0 < a, 2 >= b, -1 != b");
  std::string error;
  EXPECT_EQ(c->scalar_checks[0].size(), 3u);
  EXPECT_TRUE(CheckScalars(*c, 0, ParseCall(*c, "a = 0.5, b = 2").frame(), &error));
  for (const char* wrong : {"a = 0.0, b = 2", "a = 1.0, b = 3", "a = 1.0, b = -1"}) {
    EXPECT_FALSE(CheckScalars(*c, 0, ParseCall(*c, wrong).frame(), &error)) << wrong;
  }
}

TEST(Check, UnknownSizesBindNothing) {
  EXPECT_EQ(Answer(kRmsNorm, "x = bf16[?, 4096], weight = bf16[4095]"),
            "weight is bf16[4095], but must be bf16[4096] because x is bf16[?, 4096].");
}

}  // namespace
}  // namespace anyop::check_test
