// SPDX-License-Identifier: Apache-2.0
#include "runtime/registry/composition.h"

#include "runtime/registry/library.h"
#include "runtime/registry/registry.h"
#include "runtime/testing/testing.h"

namespace anyop::composition_test {
namespace {

// Registers an operator that has no kernel, or one that no machine runs. Returns the error.
std::string Make(const char* signature, const char* means, const char* prepack = nullptr,
                 bool has_kernel = false) {
  static std::vector<std::unique_ptr<anyop_op>> kept;  // operators hold their texts
  static const anyop_kernel* const kNotBuilt[] = {nullptr};
  auto op = std::make_unique<anyop_op>();
  op->size = sizeof(anyop_op);
  op->signature = signature;
  op->means = means;
  op->prepack = prepack;
  op->n_kernels = has_kernel;
  op->kernels = kNotBuilt;
  const anyop_op* ops[] = {op.get()};
  anyop_library_info info{};
  info.size = sizeof info;
  info.abi_version = ANYOP_ABI_VERSION;
  info.name = "composed";
  info.version = "1";
  info.n_ops = 1;
  info.ops = ops;
  kept.push_back(std::move(op));
  return ErrorOf([&] { Register(ReadLibrary(info, "c.so")); });
}
void MustMake(const char* signature, const char* means) { ASSERT_EQ(Make(signature, means), ""); }

// The sentence of a parser's error, without the text that it points into.
std::string ParseError(const char* means, const char* prepack = nullptr) {
  const std::string text = Make("bad(x: f32[n, 4], s: float) -> (y: f32[n, 4])", means, prepack);
  return text.substr(0, text.find('\n'));
}

TEST(Views, SliceIsPartOfADimension) {
  MustMake("add_halves(x: f32[m, 2*d]) -> (y: f32[m, d])",
           "a = slice(x, 1, 0, d); b = slice(x, 1, d, 2 * d); y = testing.axpy(10.0, a, b)");
  const Array x = Floats({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(Values(Call("composed.add_halves", x)), (std::vector<float>{13, 24, 57, 68}));
}

TEST(Views, ReshapeAndTransposeReadTheSameMemory) {
  MustMake("by_head(x: f32[t, h*d], shaped: f32[h, d]) -> (y: f32[h, t, d])",
           "heads = reshape(x, [t, h, d]); first = transpose(heads, 0, 1); "
           "y = testing.scale(first, 1.0)");
  const Array x = Floats({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}),
              shaped = Array::Zeros({2, 2}, DType::kF32);
  EXPECT_EQ(Values(Call("composed.by_head", x, shaped)),
            (std::vector<float>{1, 2, 5, 6, 3, 4, 7, 8}));
  // The caller's rows have gaps, which strides can say.
  const Array wide = Array::Zeros({2, 6}, DType::kF32);
  for (int i = 0; i < 8; ++i) wide.data<float>()[i / 4 * 6 + i % 4] = float(i + 1);
  EXPECT_EQ(Values(Call("composed.by_head", wide.Slice(1, 0, 4), shaped)),
            (std::vector<float>{1, 2, 5, 6, 3, 4, 7, 8}));
}

TEST(Views, OfAMutParameterAreWrittenThrough) {
  MustMake("add_to_row(x: f32[n], into: mut f32[m, n], row: int) -> ()",
           "rows = slice(into, 0, row, row + 1); flat = reshape(rows, [n]); "
           "testing.accumulate(x, flat)");
  const Array x = Floats({2}, {10, 20}), into = Floats({3, 2}, {1, 2, 3, 4, 5, 6});
  (void)Call("composed.add_to_row", x, into, 1).run();
  EXPECT_EQ(Values(into), (std::vector<float>{1, 2, 13, 24, 5, 6}));
  (void)Call("composed.add_to_row", x, into, 2).run();  // numbers of a view are part of the plan
  EXPECT_EQ(Values(into), (std::vector<float>{1, 2, 13, 24, 15, 26}));
}

TEST(Composition, DoesNotComeBackToItsOperator) {
  EXPECT_EQ(Make("around(x: f32[n]) -> (y: f32[n])", "z = testing.scale(x, 2.0); y = around(z)"),
            "c.so: composed.around: .means comes back to composed.around, by composed.around, but "
            "must end with operators that have kernels. Write one of them without the other.");
}

TEST(Views, AreCopiedForAParameterThatMustBeDense) {
  MustMake("flat_left(x: f32[m, 2*d]) -> (y: f32[m*d])",
           "left = slice(x, 1, 0, d); y = testing.flatten(left)");
  ResetCounters();
  EXPECT_EQ(Values(Call("composed.flat_left", Floats({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}))),
            (std::vector<float>{1, 2, 5, 6}));
  EXPECT_EQ(CountersFor("testing.flatten", "cpu_f32").copies, 1u);
}

TEST(Views, OfAnAbsentArgumentAreAbsent) {
  MustMake("add_left(x: f32[n], bias: f32[2*n]?, into: mut f32[n]) -> ()",
           "left = slice(bias, 0, 0, n); testing.accumulate(x, into); "
           "testing.accumulate(left, into)");
  const Array x = Floats({2}, {1, 2}), into = Array::Zeros({2}, DType::kF32);
  (void)Call("composed.add_left", x, std::nullopt, into).run();
  EXPECT_EQ(Values(into), (std::vector<float>{1, 2}));
  (void)Call("composed.add_left", x, Floats({4}, {10, 20, 30, 40}), into).run();
  EXPECT_EQ(Values(into), (std::vector<float>{12, 24}));
}

TEST(Views, RefuseWhatStridesCannotSay) {
  MustMake("flat(x: f32[m, n]) -> (y: f32[m*n])",
           "z = reshape(x, [m * n]); y = testing.scale(z, 1.0)");
  int code = 0;
  const Array wide = Array::Zeros({2, 6}, DType::kF32);
  EXPECT_EQ(ErrorOf([&] { (void)Call("composed.flat", wide.Slice(1, 0, 4)).run(); }, &code),
            "composed.flat: f32[2, 4] cannot be seen as f32[8] without a copy, because its memory "
            "has gaps or another order.\n"
            "  in .means of composed.flat, z = reshape(x, [m * n])");
  EXPECT_EQ(code, ANYOP_INVALID_ARGUMENT);
  EXPECT_EQ(Array(Call("composed.flat", wide)).size(), 12);
}

TEST(Views, RefuseWhatTheSizesDoNotHold) {
  MustMake("first(x: f32[m, n], k: int) -> (y: f32[m, n])",
           "z = slice(x, 1, 0, k); y = testing.scale(z, 1.0)");
  const Array x = Array::Zeros({2, 3}, DType::kF32);
  EXPECT_EQ(ErrorOf([&] { (void)Call("composed.first", x, 4).run(); }),
            "composed.first: the slice 0 to 4 of dimension 1 does not lie within f32[2, 3].\n"
            "  in .means of composed.first, z = slice(x, 1, 0, k)");
  MustMake("deep(x: f32[...]) -> (y: f32[...])",
           "z = transpose(x, 0, 2); y = testing.scale(z, 1.0)");
  EXPECT_EQ(ErrorOf([&] { (void)Call("composed.deep", x).run(); }),
            "composed.deep: x is f32[2, 3], but must have a dimension 2, because .means names it.\n"
            "  in .means of composed.deep, z = transpose(x, 0, 2)");
  MustMake("counted(x: f32[n], w: f32[k]?) -> (y: f32[n])",
           "z = slice(x, 0, 0, k); y = testing.scale(z, 1.0)");
  EXPECT_EQ(ErrorOf([&] {
              (void)Call("composed.counted", Floats({2}, {1, 2})).run();
            }),
            "composed.counted: k has no whole value in this call, but .means makes a view of it.\n"
            "  in .means of composed.counted, z = slice(x, 0, 0, k)");
}

TEST(Views, AreParsedAsGraphsWriteThem) {
  const std::string begin = "c.so: .means: a composition of bad, ";
  const auto says = [&](const char* means, const std::string& what) {
    const std::string error = ParseError(means);
    EXPECT_EQ(error.substr(0, begin.size()), begin) << error;
    EXPECT_NE(error.find(what), error.npos) << error;
  };
  says("z = slice(s, 0, 0, 1); y = testing.scale(z, s)", "a view is of a tensor that has a name");
  says("z = slice(4, 0, 0, 1); y = testing.scale(z, s)", "a view is of a tensor that has a name");
  says("z = slice(x, n, 0, 1); y = testing.scale(z, s)", "expected a dimension, from 0 to 7");
  says("z = transpose(x, 0, 8); y = testing.scale(z, s)", "expected a dimension, from 0 to 7");
  says("z = slice(x, 0, 0); y = testing.scale(z, s)", "expected ','");
  says("z = reshape(x, n, 4); y = testing.scale(z, s)", "expected '['");
  says("z = reshape(x, [1, 1, 1, 1, 1, 1, 1, n, 4]); y = testing.scale(z, s)",
       "a tensor has at most 8 dimensions");
  says("a, b = transpose(x, 0, 1); y = testing.scale(b, s)", "a view has one result");
  says("transpose(x, 0, 1); y = testing.scale(x, s)", "a view has one result");
  says("y = transpose(x, 0, 1)",
       "a result of the operator has memory of its own, so a call must make it");
  says("x = transpose(x, 0, 1); y = testing.scale(x, s)",
       "a statement cannot assign to a parameter");
  EXPECT_NE(ParseError("y = testing.scale(x, s)", "z = transpose(x, 0, 1); y = testing.scale(z, s)")
                .find("views are statements of .means alone"),
            std::string::npos);
}

TEST(Composition, StatementsSeeWhatEarlierOnesWrote) {
  MustMake("read_write(x: f32[n], into: mut f32[n]) -> (y: f32[n], z: f32[n])",
           "y = testing.scale(into, 1.0); testing.accumulate(x, into); "
           "z = testing.scale(into, 1.0)");
  const Array into = Floats({2}, {1, 2});
  const std::vector<Array> got = Call("composed.read_write", Floats({2}, {10, 20}), into);
  EXPECT_EQ(Values(got[0]), (std::vector<float>{1, 2}));
  EXPECT_EQ(Values(got[1]), (std::vector<float>{11, 22}));
}

TEST(Composition, MayWriteWhatItMade) {
  MustMake("sum_of_three(x: f32[n]) -> (y: f32[n])",
           "own = testing.scale(x, 1.0); part = slice(own, 0, 0, n); testing.accumulate(x, part); "
           "y = testing.axpy(1.0, own, x)");
  EXPECT_EQ(Values(Call("composed.sum_of_three", Floats({2}, {1, 2}))), (std::vector<float>{3, 6}));
}

TEST(Composition, ComputesEveryResultOrRefuses) {
  MustMake("scaled_by(x: f32[n], s: float?) -> (y: f32[n])", "y = testing.scale(x, s)");
  int code = 0;
  const Array x = Floats({2}, {1, 2});
  EXPECT_EQ(ErrorOf([&] { (void)Call("composed.scaled_by", x, std::nullopt).run(); }, &code),
            "composed.scaled_by: .means does not compute y in this call, because the statement "
            "that does needs an argument that is absent.");
  EXPECT_EQ(code, ANYOP_UNSUPPORTED);
  MustMake("divided(x: f32[n], a: int, b: int) -> (y: f32[n])", "y = testing.scale(x, a * a / b)");
  EXPECT_EQ(ErrorOf([&] { (void)Call("composed.divided", x, 1, 0).run(); }),
            "composed.divided: a * a / b, which .means uses, divides by zero in this call.\n"
            "  in .means of composed.divided, which calls testing.scale");
  EXPECT_EQ(ErrorOf([&] { (void)Call("composed.divided", x, std::int64_t{1} << 40, 1).run(); }),
            "composed.divided: a * a / b, which .means uses, is beyond 63 bits in this call.\n"
            "  in .means of composed.divided, which calls testing.scale");
}

TEST(Composition, WritesToWhatIsNotMutAreRefusedWhenLoaded) {
  EXPECT_EQ(Make("sneaky(x: f32[n], into: f32[n]) -> (y: f32[n])",
                 "testing.accumulate(x, into); y = testing.scale(into, 1.0)"),
            "c.so: composed.sneaky: .means gives into to testing.accumulate, which writes its "
            "into, but into is only read. Declare it mut, or give what a statement made.");
  EXPECT_EQ(Make("sneaky(x: f32[n], into: f32[2, n]) -> (y: f32[n])",
                 "row = slice(into, 0, 0, 1); flat = reshape(row, [n]); "
                 "testing.accumulate(into=flat, x=x); y = testing.scale(x, 1.0)"),
            "c.so: composed.sneaky: .means gives flat, which is memory of into, to "
            "testing.accumulate, which writes its into, but into is only read. Declare it mut, or "
            "give what a statement made.");
}

TEST(Composition, PlannedTensorsGoToPlannedParametersAlone) {
  const std::string end = " Give planned tensors to planned parameters, and no others.";
  EXPECT_EQ(
      Make("mixed(x: f32[n], at: i64[b+1]) -> (y: f32[b])", "y = testing.planned_sum(x, at)"),
      "c.so: composed.mixed: .means gives at to testing.planned_sum, whose starts is planned, "
      "but at is not." +
          end);
  EXPECT_EQ(Make("mixed(x: f32[n], at: planned i64[b+1]) -> (y: f32[b])",
                 "y = testing.segment_sum(x, starts=at)"),
            "c.so: composed.mixed: .means gives at to testing.segment_sum, whose starts is not "
            "planned, but at is." +
                end);
  EXPECT_EQ(Make("mixed(x: f32[n], at: planned i64[b+1], m: int) -> (y: f32[m])",
                 "some = slice(at, 0, 0, m + 1); y = testing.segment_sum(x, some)"),
            "c.so: composed.mixed: .means gives some to testing.segment_sum, whose starts is not "
            "planned, but at is." +
                end);
  EXPECT_EQ(Make("mixed(x: f32[n]) -> (y: f32[n])",
                 "z = anyop.cast(x, i64); y = testing.planned_sum(x, z)"),
            "c.so: composed.mixed: .means gives z to testing.planned_sum, whose starts is planned, "
            "but z is what a statement made, on the device of the call." +
                end);
}

TEST(Composition, AMutParameterThatNothingWritesIsRefusedWhenLoaded) {
  EXPECT_EQ(Make("idle(x: f32[n], into: mut f32[n]) -> (y: f32[n])",
                 "view = slice(into, 0, 0, n); y = testing.axpy(1.0, x, view)"),
            "c.so: composed.idle: into is mut, but no statement of .means writes it. Drop mut, or "
            "give it to a parameter that is mut.");
  // What an operator that is not loaded writes is not known.
  EXPECT_EQ(Make("later(x: f32[n], into: mut f32[n]) -> ()", "nowhere.store(x, into)"), "");
}

TEST(Composition, WithoutKernelsIsNoFallback) {
  MustMake("twice(x: f32[n]) -> (y: f32[n])", "y = testing.scale(x, 2.0)");
  ResetCounters();
  Scope scope;
  scope.strict();
  EXPECT_EQ(Values(Call("composed.twice", Floats({2}, {1, 2}))), (std::vector<float>{2, 4}));
  EXPECT_EQ(CountersFor("composed.twice", "means").calls, 1u);
  EXPECT_EQ(CountersFor("composed.twice", "means").fallbacks, 0u);
  const std::string text = Call("composed.twice", Floats({2}, {1, 2})).explain();
  EXPECT_NE(text.find("\n  means: taken\n"), text.npos) << text;
  EXPECT_EQ(text.find("refused"), text.npos) << text;
}

TEST(Composition, WithoutKernelsMayCallWhatFallsBack) {
  ASSERT_EQ(Make("slow(x: f32[n]) -> (y: f32[n])", "y = testing.scale(x, 2.0)", nullptr, true), "");
  MustMake("outer(x: f32[n]) -> (y: f32[n])", "y = slow(x)");
  ResetCounters();
  EXPECT_EQ(Values(Call("composed.outer", Floats({1}, {2}))), std::vector<float>{4});
  EXPECT_EQ(CountersFor("composed.outer", "means").fallbacks, 0u);
  EXPECT_EQ(CountersFor("composed.slow", "means").fallbacks, 1u);
  Scope scope;
  scope.strict();
  EXPECT_EQ(ErrorOf([&] { (void)Call("composed.outer", Floats({1}, {2})).run(); }),
            "composed.slow: no kernel takes this call:\n"
            "  kernel 0: declined: not built for this machine\n"
            "strict mode refuses the composition.\n"
            "  in .means of composed.outer, which calls slow");
}

}  // namespace
}  // namespace anyop::composition_test
