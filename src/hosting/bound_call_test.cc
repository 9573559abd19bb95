// SPDX-License-Identifier: Apache-2.0
#include "hosting/bound_call.h"

#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include "hosting/call_text.h"
#include "runtime/plan/policy.h"
#include "runtime/testing/testing.h"
#include "signature/owned_call.h"

namespace anyop::bound_call_test {
namespace {

constexpr const char* kScale = "anyop.call/1 testing.scale(x = f32, s = 0.5) -> y";

std::string TextOf(const std::string& text) { return FindBoundCall(text).text(); }
std::string Refusal(const std::string& text, int code = ANYOP_INVALID_ARGUMENT) {
  int found = -1;
  const std::string error = ErrorOf([&] { FindBoundCall(text); }, &found);
  EXPECT_EQ(found, code) << error;
  return error;
}
void RunOn(const BoundCall& call, std::vector<Array> inputs, std::vector<Array> results) {
  std::vector<DLTensor> in, out;
  for (const Array& a : inputs) in.push_back(a.tensor());
  for (const Array& a : results) out.push_back(a.tensor());
  call.Run(in, out);
}
// Of sizes, by rank; -1 unknown. No sizes at all: an unknown rank.
struct Unknown {
  explicit Unknown(std::vector<std::int64_t> sizes, bool has_rank = true)
      : shape(std::move(sizes)) {
    tensor.ndim = has_rank ? int(shape.size()) : -1;
    tensor.shape = shape.data();
  }
  std::vector<std::int64_t> shape;
  DLTensor tensor{};
};
std::string Inferred(const BoundCall& call, std::vector<DLTensor> inputs) {
  std::vector<ResultShape> shapes(call.results().size());
  call.Infer(inputs, shapes);
  std::string text;
  for (ResultShape& s : shapes) {
    DLTensor t{};
    t.ndim = s.rank;
    t.shape = s.shape;
    t.dtype = ToDL(s.dtype);
    text += (text.empty() ? "" : ", ") + Show(t);
  }
  return text;
}

TEST(BoundCall, RunsWithWhatIsFixed) {
  const BoundCall& call = FindBoundCall(kScale);
  const Array x = Counting({2, 3}), y = Array::Empty({2, 3}, DType::kF32);
  RunOn(call, {x}, {y});
  EXPECT_EQ(Values(y), (std::vector<float>{0, 0.5, 1, 1.5, 2, 2.5}));
}

TEST(BoundCall, OfEqualTextsIsOneObject) {
  const BoundCall& call = FindBoundCall(kScale);
  EXPECT_EQ(&FindBoundCall(std::string(kScale)), &call);
  EXPECT_EQ(&FindBoundCall("anyop.call/1  testing.scale( s=5e-1,x = f32 )->y "), &call);
  EXPECT_NE(&FindBoundCall("anyop.call/1 testing.scale(x = f32, s = 0.25) -> y"), &call);
}

// Where a text lay is remembered: another text of the same length in the same memory is another
// call, and so is the first one again.
TEST(BoundCall, IsFoundByItsTextAndNotByWhereItLies) {
  const BoundCall& half = FindBoundCall("anyop.call/1 testing.scale(x = f32, s = 0.5) -> y");
  const BoundCall& most = FindBoundCall("anyop.call/1 testing.scale(x = f32, s = 0.7) -> y");
  std::string text = half.text();
  for (int i = 0; i < 3; ++i) {
    text[text.find("s = 0.") + 6] = '5';
    for (int k = 0; k < 2; ++k) EXPECT_EQ(&FindBoundCall(text), &half);
    text[text.find("s = 0.") + 6] = '7';
    for (int k = 0; k < 2; ++k) EXPECT_EQ(&FindBoundCall(text), &most);
  }
}

TEST(BoundCall, TextIsCanonical) {
  const char* texts[] = {
      kScale,
      "anyop.call/1 testing.axpy(a = -0.0, x = f64, y = f64) -> z",
      "anyop.call/1 testing.axpy(a = inf, x = f64, y = f64) -> z",
      "anyop.call/1 testing.axpy(a = nan, x = f64, y = f64) -> z in strict",
      "anyop.call/1 testing.axpy(a = 0.1, x = f32, y = f32) -> z in batch_invariant, threads = 2",
      "anyop.call/1 testing.concat(parts = [f32, f32, f32]) -> y",
      "anyop.call/1 testing.concat(parts = []) -> y",
      "anyop.call/1 testing.extremes(x = f32) -> _, high",
      "anyop.call/1 testing.extremes(x = f32) -> _, _",
      "anyop.call/1 testing.accumulate(x = f32, into = f32)",
      "anyop.call/1 testing.pick(x = f32, which = 'last') -> y",
      "anyop.call/1 testing.maybe(x = f32, bias = None) -> y",
      R"(anyop.call/1 testing.scale(x = f32, s = 0.5) -> y in policy = "all,-testing.scale")",
      R"(anyop.call/1 testing.scale(x = f32, s = 0.5) -> y in policy = "")",
      R"(anyop.call/1 testing.scale(x = f32, s = 0.5) -> y in policy = "-other.\x01\"\\\xff")",
  };
  for (const char* text : texts) EXPECT_EQ(TextOf(text), text);
}

TEST(BoundCall, CompletesWhatIsLeftOut) {
  EXPECT_EQ(TextOf("anyop.call/1 testing.pick(x = f32) -> y"),
            "anyop.call/1 testing.pick(x = f32, which = 'first') -> y");
  EXPECT_EQ(TextOf("anyop.call/1 testing.maybe(x = f32) -> y"),
            "anyop.call/1 testing.maybe(x = f32, bias = None) -> y");
}

TEST(BoundCall, NumbersReadBackExactly) {
  std::mt19937_64 random(7);
  for (int k = 0; k < 2000; ++k) {
    anyop_value v{};
    v.tag = ANYOP_FLOAT;
    v.i = std::int64_t(random());
    if (std::isnan(v.f)) continue;
    OwnedCall call(*Find("testing.scale")->contract);
    call.SetTensor(0, DType::kF32, {});
    call[1] = v;
    const std::string text = TextOfCall(*Find("testing.scale"), call.frame(), 1, {});
    const CallText read = ReadCallText(text);
    EXPECT_EQ(read.op->call[1].i, v.i) << text;
  }
}

TEST(BoundCall, HasTheScopeThatItWasBoundIn) {
  const Operator& op = *Find("testing.scale");
  OwnedCall call(*op.contract);
  call.SetTensor(0, DType::kF32, {2});
  call.SetFloat(1, 0.5);
  Scope scope;
  scope.strict().batch_invariant().threads(3).policy("-testing.scale");
  const std::string text = TextOfCall(op, call.frame(), 1, CurrentScope());
  EXPECT_EQ(text,
            "anyop.call/1 testing.scale(x = f32, s = 0.5) -> y in strict, batch_invariant, "
            "threads = 3, policy = \"-testing.scale\"");
  const CallText read = ReadCallText(text);
  EXPECT_TRUE(read.scope.is_strict && read.scope.is_batch_invariant);
  EXPECT_EQ(read.scope.threads, 3);
  EXPECT_EQ(read.scope.policy, CurrentScope().policy);
}

TEST(BoundCall, RunsInItsOwnScopeOnEveryThread) {
  // The most threads of the call, and its flags.
  const auto seen = [](const BoundCall& call) {
    const Array x = Array::Zeros({1 << 20}, DType::kF32), y = Array::Zeros({2}, DType::kI64);
    RunOn(call, {x}, {y});
    return std::pair(y.data<std::int64_t>()[0], y.data<std::int64_t>()[1]);
  };
  const std::string text = "anyop.call/1 testing.count_threads(x = f32) -> y";
  const BoundCall& mine = FindBoundCall(text + " in batch_invariant, threads = 2");
  const BoundCall& plain = FindBoundCall(text);
  const std::pair<std::int64_t, std::int64_t> wanted(2, ANYOP_FLAG_BATCH_INVARIANT);
  EXPECT_EQ(seen(mine), wanted);
  std::thread([&] { EXPECT_EQ(seen(mine), wanted); }).join();
  EXPECT_EQ(seen(plain).second, 0);
  EXPECT_EQ(seen(FindBoundCall(text + " in batch_invariant")).second, ANYOP_FLAG_BATCH_INVARIANT);
  Scope scope;
  scope.threads(3).batch_invariant();
  EXPECT_EQ(seen(plain).second, 0);
  EXPECT_EQ(seen(mine), wanted);
  EXPECT_EQ(CurrentScope().threads, 3);
  EXPECT_TRUE(CurrentScope().is_batch_invariant);
}

TEST(BoundCall, GivesTheScopeBackAfterAnError) {
  const BoundCall& call = FindBoundCall(std::string(kScale) + " in threads = 2");
  EXPECT_NE(ErrorOf([&] { RunOn(call, {Counting({2})}, {Counting({3})}); }), "");
  EXPECT_EQ(CurrentScope().threads, 0);
}

TEST(BoundCall, InfersFromWhatIsKnown) {
  const BoundCall& scale = FindBoundCall(kScale);
  EXPECT_EQ(Inferred(scale, {Unknown({2, 3}).tensor}), "f32[2, 3]");
  EXPECT_EQ(Inferred(scale, {Unknown({-1, 3}).tensor}), "f32[?, 3]");
  EXPECT_EQ(Inferred(scale, {Unknown({}, false).tensor}), "f32[...]");
  const BoundCall& axpy =
      FindBoundCall("anyop.call/1 testing.axpy(a = 1.0, x = f64, y = f64) -> z");
  EXPECT_EQ(Inferred(axpy, {Unknown({-1, 3}).tensor, Unknown({2, -1}).tensor}), "f64[2, 3]");
  const BoundCall& high = FindBoundCall("anyop.call/1 testing.extremes(x = f32) -> _, high");
  EXPECT_EQ(Inferred(high, {Unknown({-1}).tensor}), "f32[1]");
}

TEST(BoundCall, RefusesOtherTensorsThanItWasBoundWith) {
  const BoundCall& call = FindBoundCall(kScale);
  const auto error = [&](auto f) { return ErrorOf(f); };
  const Array wide = Array::Zeros({2}, DType::kF64), x = Counting({2});
  EXPECT_EQ(error([&] { RunOn(call, {wide}, {x}); }),
            "testing.scale: x is f64[2], but the call was bound with f32. Try binding it anew.");
  EXPECT_EQ(error([&] {
              RunOn(call, {x, x}, {x});
            }),
            "testing.scale: 2 inputs and 1 result are given, but the bound call has 1 and 1.");
  Unknown other({2});
  other.tensor.dtype = ToDL(DType::kBF16);
  EXPECT_EQ(error([&] { Inferred(call, {other.tensor}); }),
            "testing.scale: x is bf16[2], but the call was bound with f32. Try binding it anew.");
}

TEST(BoundCall, RefusesSizesThatNoTensorHas) {
  const BoundCall& call = FindBoundCall(kScale);
  const std::string refusal =
      "testing.scale: the rank of x must be at most 8, and a rank or size at least 0, or -1 where "
      "it is unknown.";
  for (const std::int64_t size : {std::int64_t(-2), INT64_MIN, INT64_MIN + 1}) {
    EXPECT_EQ(ErrorOf([&] { Inferred(call, {Unknown({2, size}).tensor}); }), refusal);
  }
  EXPECT_EQ(ErrorOf([&] {
              Inferred(call, {Unknown({1, 1, 1, 1, 1, 1, 1, 1, 1}).tensor});
            }),
            refusal);
}

TEST(BoundCall, SaysWhatIsWrittenAndWhatMayLieOver) {
  const BoundCall& scatter =
      FindBoundCall("anyop.call/1 testing.scatter(x = f32, slots = i64, cache = f32)");
  ASSERT_EQ(scatter.inputs().size(), 3u);
  EXPECT_EQ(scatter.inputs()[2].name, "cache");
  EXPECT_TRUE(scatter.inputs()[2].is_written);
  EXPECT_FALSE(scatter.inputs()[0].is_written);
  const BoundCall& axpy =
      FindBoundCall("anyop.call/1 testing.axpy(a = 1.0, x = f64, y = f64) -> z");
  EXPECT_EQ(axpy.results()[0].over, (std::vector<int>{0, 1}));
  EXPECT_EQ(axpy.results()[0].dtype, int(DType::kF64));
  const BoundCall& lists = FindBoundCall("anyop.call/1 testing.concat(parts = [f32, f32]) -> y");
  EXPECT_EQ(lists.inputs()[1].name, "parts[1]");
  const Array y = Array::Empty({4}, DType::kF32);
  RunOn(lists, {Counting({2}), Floats({2}, {8, 9})}, {y});
  EXPECT_EQ(Values(y), (std::vector<float>{0, 1, 8, 9}));
  const BoundCall& norm = FindBoundCall("anyop.call/1 testing.nop3(x = f32, weight = f32) -> y");
  EXPECT_EQ(norm.results()[0].over, std::vector<int>{0});
}

TEST(BoundCall, TellsItsGradient) {
  const BoundCall& call = FindBoundCall(
      "anyop.call/1 testing.affine(x = f32, s = 2.0, b = f32) -> y in batch_invariant");
  const std::uint8_t both[] = {1, 1}, second[] = {0, 1};
  const BoundGradient& all = call.Gradient(both);
  EXPECT_EQ(all.gradient->text(),
            "anyop.call/1 testing.affine_backward(dy = f32, s = 2.0, b = f32, y = f32) -> dx, db "
            "in batch_invariant");
  EXPECT_EQ(all.forward, &call);
  ASSERT_EQ(all.sources.size(), 3u);
  EXPECT_EQ(all.sources[0].kind, ANYOP_SOURCE_RESULT_GRADIENT);
  EXPECT_EQ(all.sources[1].kind, ANYOP_SOURCE_INPUT);
  EXPECT_EQ(all.sources[1].index, 1);
  EXPECT_EQ(all.sources[2].kind, ANYOP_SOURCE_RESULT);
  EXPECT_EQ(all.targets, (std::vector<int>{0, 1}));
  EXPECT_EQ(&call.Gradient(both), &all);
  const BoundGradient& one = call.Gradient(second);
  EXPECT_EQ(one.gradient->text(),
            "anyop.call/1 testing.affine_backward(dy = f32, s = 2.0, b = f32, y = f32) -> _, db "
            "in batch_invariant");
  EXPECT_EQ(one.targets, (std::vector<int>{1}));
  const BoundCall& absent =
      FindBoundCall("anyop.call/1 testing.affine(x = f32, s = 2.0, b = None) -> y");
  const std::uint8_t only[] = {1};
  EXPECT_EQ(absent.Gradient(only).gradient->text(),
            "anyop.call/1 testing.affine_backward(dy = f32, s = 2.0, b = None, y = f32) -> dx, _");
}

// An operator without kernels whose gradient reads a result that a caller may decline.
struct Saving {
  Saving() {
    op[0].signature = "keep(x: f32[n], t: f32[n]?) -> (a: f32[n]?, y: f32[n], r: f64[n]?)";
    op[0].gradient = "keep_backward";
    op[1].signature =
        "keep_backward(dy: f32[n], da: f32[n]?, t: f32[n]?, r: f64[n]) -> (dx: f32[n]?)";
    for (anyop_op& o : op) o.size = sizeof o;
    info.size = sizeof info;
    info.abi_version = ANYOP_ABI_VERSION;
    info.name = "saving";
    info.n_ops = 2;
    info.ops = ops;
    Define(info, "saving.so");
  }
  anyop_op op[2] = {};
  const anyop_op* ops[2] = {&op[0], &op[1]};
  anyop_library_info info{};
};

std::string SourcesOf(const BoundGradient& gradient) {
  constexpr const char* kNames[] = {"d", "in", "out"};
  std::string text;
  for (const anyop_source& s : gradient.sources)
    text += kNames[s.kind] + std::to_string(s.index) + " ";
  return text;
}

TEST(BoundCall, GradientNamesTheForwardThatKeepsWhatItReads) {
  static const Saving library;
  const std::string keep = "anyop.call/1 saving.keep(x = f32, t = None)";
  const std::uint8_t wanted[] = {1}, first_only[] = {1, 0};
  const BoundGradient& made = FindBoundCall(keep + " -> _, y, _").Gradient(wanted);
  EXPECT_EQ(made.forward->text(), keep + " -> _, y, r");
  EXPECT_EQ(made.gradient->text(),
            "anyop.call/1 saving.keep_backward(dy = f32, da = None, t = None, r = f64) -> dx");
  EXPECT_EQ(SourcesOf(made), "d0 out1 ");
  const BoundCall& both = FindBoundCall(keep + " -> a, y, _");
  EXPECT_EQ(SourcesOf(both.Gradient(wanted)), "d1 d0 out2 ");
  // There is none of y: it is asked for all the same, and is zero.
  EXPECT_EQ(SourcesOf(both.Gradient(wanted, first_only)), "d1 d0 out2 ");
  const std::uint8_t second_only[] = {0, 1}, t_too[] = {1, 1};
  EXPECT_EQ(SourcesOf(both.Gradient(wanted, second_only)), "d1 out2 ");
  int code = 0;
  EXPECT_EQ(
      ErrorOf(
          [&] {
            FindBoundCall("anyop.call/1 saving.keep(x = f32, t = f32) -> _, y, _").Gradient(t_too);
          },
          &code),
      "saving.keep: t has no gradient, but one is wanted: saving.keep_backward computes none "
      "for it.");
  EXPECT_EQ(code, ANYOP_UNSUPPORTED);
}

TEST(BoundCall, RefusesGradientsThatThereAreNot) {
  const std::uint8_t one[] = {1}, none[] = {0};
  int code = 0;
  EXPECT_EQ(ErrorOf([&] { FindBoundCall(kScale).Gradient(one); }, &code),
            "testing.scale: it has no gradient, but one is wanted.");
  EXPECT_EQ(code, ANYOP_UNSUPPORTED);
  const BoundCall& call =
      FindBoundCall("anyop.call/1 testing.affine(x = f32, s = 2.0, b = None) -> y");
  EXPECT_EQ(ErrorOf([&] { call.Gradient(none); }),
            "testing.affine: no input's gradient is wanted, but at least one must be.");
  const std::uint8_t two[] = {1, 1};
  EXPECT_EQ(ErrorOf([&] { call.Gradient(two); }),
            "testing.affine: gradients are wanted of 2 inputs, each of which is 1 or 0, but the "
            "bound call has 1 and 1.");
  EXPECT_EQ(ErrorOf([&] { call.Gradient(one, two); }),
            "testing.affine: gradients are wanted of 1 input and given of 2 results, each of which "
            "is 1 or 0, but the bound call has 1 and 1.");
}

TEST(BoundCall, RefusesTextsWithTheirPlace) {
  EXPECT_EQ(
      Refusal("rms_norm(x = f32)"),
      "bound call: at character 1 of its text, \"rms_norm(x = f32)\": expected anyop.call/1.");
  EXPECT_EQ(Refusal("anyop.call/2 testing.scale(x = f32)", ANYOP_NOT_AVAILABLE),
            "bound call: its text is of version 2, but this anyop reads version 1. Try a newer "
            "anyop.");
  EXPECT_EQ(Refusal("anyop.call/1 testing.scale(x = f33, s = 0.5) -> y"),
            "bound call: at character 32 of its text, \"f33, s = 0.5) -> y\": expected a dtype: "
            "f64, f32, f16, bf16, f8e4m3, f8e5m2, i64, i32, i16, i8, u8, bool, u16, u32, u64, c64, "
            "c128, f8e8m0, f8e4m3fnuz, f8e5m2fnuz, f4e2m1x2.");
  EXPECT_EQ(Refusal("anyop.call/1 testing.scale(x = f32) -> y"), "testing.scale: s is missing.");
  EXPECT_EQ(Refusal("anyop.call/1 testing.scale(x = f32, s = 1e999) -> y"),
            "bound call: at character 41 of its text, \"1e999) -> y\": expected a number that a "
            "double can hold.");
  EXPECT_EQ(Refusal("anyop.call/1 testing.scale(x = f32, s = 0.5, t = 1) -> y"),
            "testing.scale: there is no argument 't'. Try x or s.");
  EXPECT_EQ(Refusal("anyop.call/1 testing.scale(x = f32, s = 0.5)"),
            "bound call: at character 45 of its text, \"\": expected -> and the results, _ for "
            "those that are not wanted.");
  EXPECT_EQ(Refusal("anyop.call/1 testing.scale(x = f32, s = 0.5) -> _"),
            "testing.scale: the result y cannot be declined.");
  EXPECT_EQ(Refusal("anyop.call/1 testing.scale(x = None, s = 0.5) -> y"),
            "bound call: at character 36 of its text, \", s = 0.5) -> y\": this argument may not "
            "be None.");
  EXPECT_EQ(Refusal("anyop.call/1 testing.pick(x = f32, which = 'lost') -> y"),
            "testing.pick: which is 'lost', but must be 'first' or 'last'. Did you mean 'last'?");
  EXPECT_EQ(Refusal("anyop.call/1 testing.scale(x = f32, s = 0.5) -> y in threads = 0"),
            "bound call: at character 64 of its text, \"0\": so many threads cannot be.");
  EXPECT_EQ(Refusal("anyop.call/1 saved(\"\", \"g\", \"\")"),
            "bound call: at character 22 of its text, \", \\\"g\\\", \\\"\\\")\": expected a path "
            "before this place.");
  EXPECT_EQ(Refusal("anyop.call/1 testing.scald(x = f32) -> y", ANYOP_NOT_AVAILABLE),
            ErrorOf([] { Find("testing.scald"); }));
}

TEST(BoundCall, IsFoundByAnyNumberOfThreads) {
  std::vector<std::thread> threads;
  std::vector<std::vector<const BoundCall*>> found(4);
  for (auto& own : found) {
    threads.emplace_back([&own] {
      for (int k = 0; k < 300; ++k) {
        const std::string s = std::to_string(k) + ".5";
        own.push_back(&FindBoundCall("anyop.call/1 testing.scale(x = f32, s = " + s + ") -> y"));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (const auto& own : found) EXPECT_EQ(own, found[0]);
}

}  // namespace
}  // namespace anyop::bound_call_test
