// SPDX-License-Identifier: Apache-2.0
// Of a call on a device, which tensors the host reads, when, and how often it waits for them.
#include "runtime/device/device.h"
#include "runtime/registry/registry.h"
#include "runtime/testing/on_far.h"

namespace anyop::device_checks_test {
namespace {

TEST(DeviceChecks, CopyWhatTheyReadAloneAndWaitOnce) {
  const Array x = OnFar(Counting({8})), at = OnFar(Ints({6, 0})), by = OnFar(Ints({1, 0}));
  const Array spare = OnFar(Counting({3}));
  Scope scope;
  scope.data_checks(DataChecks::kOnHost);
  Array y;
  {
    const WatchedFar far;
    y = Call("testing.picked", x, at, by, spare);
    EXPECT_EQ(far.to_host, 2);
    EXPECT_EQ(far.waits, 1);
  }
  EXPECT_EQ(FromFar(y), (std::vector<float>{7, 0}));
  EXPECT_EQ(ErrorOf([&] { Array(Call("testing.picked", x, at, at, spare)); }),
            "testing.picked: row 12 is no row of x.");
  EXPECT_NE(Call("testing.picked", x, at, by, spare)
                .explain()
                .find("the host waits for copies of at, by, whose data are checked."),
            std::string::npos);
}

TEST(DeviceChecks, OfACompositionAreWorkOnTheStreamInFrontOfIt) {
  const Array x = OnFar(Counting({8})), at = OnFar(Ints({6, 0})), by = OnFar(Ints({1, 0}));
  const Array spare = OnFar(Counting({3}));
  Array y;
  {
    const WatchedFar far;
    y = Call("testing.picked_twice", x, at, by, spare);
    EXPECT_EQ(far.to_host, 0);
    EXPECT_EQ(far.waits, 0);
    EXPECT_EQ(far.submits, 3);  // one that looks at the data, and the parts
  }
  EXPECT_EQ(FromFar(y), (std::vector<float>{14, 0}));
}

TEST(DeviceChecks, ThatReadNoDataRefuseAtOnce) {
  const Array odd = OnFar(Counting({3})), even = OnFar(Counting({4}));
  EXPECT_EQ(ErrorOf([&] { Array(Call("testing.even", odd)); }),
            "testing.even: x has 3 rows, but must have an even number.");
  Scope scope;
  scope.data_checks(DataChecks::kTrusted);
  EXPECT_NE(ErrorOf([&] { Array(Call("testing.even", odd)); }), "");
  scope.data_checks(DataChecks::kOnHost);
  const WatchedFar far;
  const Array y = Call("testing.even", even);
  EXPECT_EQ(far.waits, 0);
}

// The dtypes that a tensor may have, by bit.
std::uint32_t DTypesOf(const Form& form, const DTypes& d) {
  if (d.kind == DTypes::kSet) return d.mask;
  for (const Condition& c : form.conditions) {
    const Node& n = form.node(c.node);
    if (n.op != NodeOp::kIn || form.node(n.a).op != NodeOp::kDTypeVar) continue;
    if (form.node(n.a).i == d.index) return std::uint32_t(n.i);
  }
  return ~0u;
}

TEST(DeviceChecks, OfTheBuiltInOperatorsReadIndicesAlone) {
  for (const Operator* op : Operators()) {
    if (op->library != "anyop") continue;
    const Form& form = op->contract->forms[0];
    for (std::size_t i = 0; i < form.params.size(); ++i) {
      if (!(op->check_reads >> i & 1)) continue;
      EXPECT_FALSE(DTypesOf(form, form.params[i].tensor.dtypes) &
                   ~(1u << ANYOP_I32 | 1u << ANYOP_I64))
          << op->name << " copies " << form.params[i].name << " of a call on a device to the host. "
          << "Let its check take a const TensorShape&.";
    }
  }
}

// What a call that computes nothing has of indices is wrong all the same, and known at once.
TEST(DeviceChecks, OfACallThatComputesNothingAreMadeAtOnce) {
  const Array none = OnFar(Array::Empty({2, 0}, DType::kF32));
  const Array cache = OnFar(Array::Empty({4, 0}, DType::kF32));
  const Array good = OnFar(Ints({0, 3})), bad = OnFar(Ints({0, 4}));
  const auto error = [&](const Array& slots) {
    return ErrorOf([&] { Call("testing.scatter", none, slots, cache).into(); });
  };
  const WatchedFar far;
  EXPECT_EQ(error(bad), "testing.scatter: slots[1] is 4, but must be less than 4 (s).");
  EXPECT_EQ(error(good), "");
  EXPECT_EQ(far.submits, 0);
  EXPECT_EQ(far.waits, 2);
  Scope scope;
  scope.data_checks(DataChecks::kTrusted);
  EXPECT_EQ(error(bad), "");
}

TEST(DeviceChecks, OfACompositionAreThoseOfItsParts) {
  const Array rows = OnFar(Counting({2, 2})), bad = OnFar(Ints({0, 4}));
  const Array cache = OnFar(Array::Zeros({4, 2}, DType::kF32));
  const Array none = OnFar(Array::Empty({2, 0}, DType::kF32));
  const Array empty_cache = OnFar(Array::Empty({4, 0}, DType::kF32));
  const WatchedFar far;
  Call("testing.scatter_means", rows, bad, cache).into();
  EXPECT_EQ(far.waits, 0);
  EXPECT_NE(ErrorOf([] {
              Synchronize(Far());
            }).find("testing.scatter_means: slots[1] is 4, but must be less than 4 (s)."),
            std::string::npos);
  EXPECT_EQ(ErrorOf([&] { Call("testing.scatter_means", none, bad, empty_cache).into(); }),
            "testing.scatter_means: slots[1] is 4, but must be less than 4 (s).");
}

// Its rule is the stricter one.
TEST(DeviceChecks, OfACompositionAreItsOwnToo) {
  const Array rows = Counting({2, 2}), bad = Ints({0, 2}),
              zeros = Array::Zeros({4, 2}, DType::kF32);
  const Array far_rows = OnFar(rows), far_bad = OnFar(bad), cache = OnFar(zeros);
  const auto call = [&] { Call("testing.scatter_below", far_rows, far_bad, cache, 2).into(); };
  const std::string error =
      ErrorOf([&] { Call("testing.scatter_below", rows, bad, zeros.Clone(), 2).into(); });
  EXPECT_EQ(error, "testing.scatter_below: slots[1] is 2, but must be less than 2 (k, k is 2).");
  {
    const WatchedFar far;
    call();
    EXPECT_EQ(far.waits, 0);
    EXPECT_EQ(ErrorOf([] { Synchronize(Far()); }),
              error + " This is of earlier work on far:0, whose results are not to be used.");
  }
  for (const bool is_strict : {false, true}) {
    Scope scope;
    is_strict ? scope.strict() : scope.data_checks(DataChecks::kOnHost);
    EXPECT_EQ(ErrorOf(call), error);
  }
  EXPECT_EQ(FromFar(cache), Values(zeros));
  Scope scope;
  scope.data_checks(DataChecks::kTrusted);
  call();
  EXPECT_EQ(FromFar(cache), (std::vector<float>{0, 1, 0, 0, 2, 3, 0, 0}));
}

// ---- Planned tensors.

TEST(DeviceCompositions, RunPartsThereThatHaveNoTensor) {
  const Array x = Counting({3, 4});
  EXPECT_EQ(FromFar(Call("testing.add_ramp", OnFar(x))), Values(Call("testing.add_ramp", x)));
}

TEST(Planned, AreReadOnTheHostBeforeTheCallReturns) {
  const Array x = Counting({6});
  for (const bool is_strict : {false, true}) {
    Scope scope;
    scope.strict(is_strict);
    Array starts = Ints({0, 2, 2, 6});
    const Array far_x = OnFar(x);
    Array y;
    {
      const WatchedFar far;
      y = Call("testing.planned_sum", far_x, starts);
      EXPECT_EQ(far.waits, 0);  // its offsets were looked at here
    }
    for (std::int64_t i = 0; i < 4; ++i) starts.data<std::int64_t>()[i] = -1;
    EXPECT_EQ(y.device(), Far());
    EXPECT_EQ(FromFar(y), (std::vector<float>{1, 0, 14}));
  }
}

TEST(Planned, AreNotSaidToBeCopiedForTheirCheck) {
  const Array x = OnFar(Counting({6})), starts = Ints({0, 2, 6});
  Scope scope;
  scope.data_checks(DataChecks::kOnHost);
  const std::string text = Call("testing.planned_sum", x, starts).explain();
  EXPECT_EQ(text.find("waits for copies"), std::string::npos) << text;
}

TEST(Planned, AreRefusedAtOnceWhereTheyAreWrong) {
  const Array x = OnFar(Counting({6}));
  EXPECT_EQ(ErrorOf([&] {
              Array(Call("testing.planned_sum", x, Ints({0, 7})));
            }),
            "testing.planned_sum: starts[1] is 7, but must be at most 6 (t).");
  const std::string wanted =
      "testing.planned_sum: starts is on far:0, but must be on cpu, because it is planned: the "
      "host reads it before the work begins. Try a copy on the CPU.";
  EXPECT_EQ(ErrorOf([&] { Array(Call("testing.planned_sum", x, OnFar(Ints({0, 6})))); }), wanted);
  EXPECT_EQ(ErrorOf([&] {
              Array(Call("testing.planned_sum", Counting({6}), OnFar(Ints({0, 6}))));
            }),
            wanted);
}

TEST(Planned, MayLieAsTheyLike) {
  const Array x = Counting({6});
  const Array spread = Ints({0, 9, 2, 9, 6, 9});
  std::int64_t shape[] = {3}, strides[] = {2};
  DLTensor starts = spread.tensor();
  starts.shape = shape, starts.strides = strides;
  EXPECT_EQ(FromFar(Call("testing.planned_sum", OnFar(x), starts)), (std::vector<float>{1, 14}));
  Scope scope;
  scope.strict();
  EXPECT_EQ(ErrorOf([&] { Array(Call("testing.planned_sum", OnFar(x), starts)); }),
            "testing.planned_sum: starts is i64[3] with strides [2] and would be copied, which "
            "strict mode refuses. Try a contiguous tensor.");
}

TEST(Planned, GoToThePartsOfACompositionAsTheyAre) {
  const Array x = Counting({6}), starts = Ints({0, 2, 6});
  const std::vector<float> wanted = {2, 28};
  EXPECT_EQ(Values(Array(Call("testing.planned_twice", x, starts))), wanted);
  EXPECT_EQ(FromFar(Call("testing.planned_twice", OnFar(x), starts)), wanted);
}

}  // namespace
}  // namespace anyop::device_checks_test
