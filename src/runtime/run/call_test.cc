// SPDX-License-Identifier: Apache-2.0
#include "runtime/run/call.h"

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "platform/testing/float_modes.h"
#include "runtime/plan/plan_cache.h"
#include "runtime/testing/testing.h"

namespace {
std::atomic<long> allocations{0};
}  // namespace

// Not inlined: GCC would see malloc answered by delete, and warn.
[[gnu::noinline]] void* operator new(std::size_t n) {
  ++allocations;
  if (void* p = std::malloc(n)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace anyop::call_test {
namespace {

TEST(Call, AllocatesAndFillsTheResult) {
  const Array x = Floats({2, 2}, {1, 2, 3, 4}), y = Floats({2, 2}, {10, 20, 30, 40});
  const Array z = Call("testing.axpy", 2.0, x, y);
  EXPECT_EQ(Values(z), (std::vector<float>{12, 24, 36, 48}));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(z.data()) % 64, 0u);
}

TEST(Call, WritesTheGivenResult) {
  const Array x = Floats({2}, {1, 2}), y = Floats({2}, {10, 20}),
              z = Array::Zeros({2}, DType::kF32);
  Call("testing.axpy", 1, x, y).into(z);
  EXPECT_EQ(Values(z), (std::vector<float>{11, 22}));
}

TEST(Call, TakesArgumentsByName) {
  const Array x = Floats({2}, {1, 2});
  const Array y = Call("testing.scale", Named{"s", 3}, Named{"x", x});
  EXPECT_EQ(Values(y), (std::vector<float>{3, 6}));
  EXPECT_EQ(ErrorOf([&] {
              (void)Call("testing.scale", x, Named{"t", 3}).run();
            }),
            "testing.scale: there is no argument 't'. Try x or s.");
  EXPECT_EQ(ErrorOf([&] {
              (void)Call("testing.scale", x, 1.0, Named{"x", x}).run();
            }),
            "testing.scale: x is given twice.");
  EXPECT_EQ(ErrorOf([&] { (void)Call("testing.scale", x).run(); }), "testing.scale: s is missing.");
  EXPECT_EQ(ErrorOf([&] { (void)Call("testing.scale", x, 1.0, 2.0).run(); }),
            "testing.scale: 3 arguments are given, but there are 2.");
}

TEST(Call, FillsInDefaultsAndWords) {
  const Array x = Floats({3}, {1, 2, 3});
  EXPECT_EQ(Values(Call("testing.pick", x)), std::vector<float>{1});
  EXPECT_EQ(Values(Call("testing.pick", x, "last")), std::vector<float>{3});
  EXPECT_EQ(ErrorOf([&] { (void)Call("testing.pick", x, "lost").run(); }),
            "testing.pick: which is 'lost', but must be 'first' or 'last'. Did you mean 'last'?");
}

TEST(Call, RefusesWrongShapesAndDtypes) {
  const Array x = Array::Zeros({2, 8}, DType::kF32), y = Array::Zeros({2, 9}, DType::kF32);
  int code = 0;
  EXPECT_EQ(ErrorOf([&] { (void)Call("testing.axpy", 1, x, y).run(); }, &code),
            "testing.axpy: y is f32[2, 9], but must be f32[2, 8] because x is f32[2, 8].");
  EXPECT_EQ(code, ANYOP_INVALID_ARGUMENT);
  const Array i = Array::Zeros({2, 8}, DType::kI8);
  EXPECT_EQ(ErrorOf([&] { (void)Call("testing.axpy", 1, i, i).run(); }),
            "testing.axpy: x is i8[2, 8], but T must be f64 or f32. Try a cast.");
  EXPECT_NE(ErrorOf([&] { (void)Call("testing.axpy", 1, std::nullopt, x).run(); }), "");
  EXPECT_NE(ErrorOf([&] { Call("testing.axpy", 1, x, x).into(y); }), "");
}

TEST(Call, RefusesOtherDevicesAndTooManyDimensions) {
  const Array x = Array::Zeros({2}, DType::kF32);
  DLTensor gpu = x.tensor();
  gpu.device.device_type = 2;
  EXPECT_EQ(ErrorOf([&] { (void)Call("testing.scale", gpu, 1.0).run(); }),
            "testing.scale: x is on device type 2, but no loaded library has this device. Try "
            "anyop.load of the device's library, or a copy on the CPU.");
  std::int64_t nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  DLTensor deep = x.tensor();
  deep.ndim = 9;
  deep.shape = nine;
  EXPECT_EQ(ErrorOf([&] { (void)Call("testing.scale", deep, 1.0).run(); }),
            "testing.scale: x has 9 dimensions, but at most 8 are possible.");
}

TEST(Call, ChecksNumbersOutsideTheKeyInEveryCall) {
  const Array x = Array::Zeros({2}, DType::kF32), y = Array::Zeros({2}, DType::kF32);
  Operator& op = *Find("testing.scale");
  Call(&op, x, 1.0).into(y);
  const std::uint64_t misses = op.plans->misses();
  Call(&op, x, 2.0).into(y);
  EXPECT_EQ(op.plans->misses(), misses);
  EXPECT_EQ(ErrorOf([&] { Call(&op, x, 1e31).into(y); }),
            "testing.scale: s < 1e30 must hold, but s is 1e+31.");
  EXPECT_EQ(op.plans->misses(), misses);
}

TEST(Call, CopiesScatteredInputsAndCountsThem) {
  ResetCounters();
  const Array x = Counting({2, 3}).Transpose(0, 1);  // f32[3, 2], last stride 3
  EXPECT_EQ(Values(Call("testing.scale", x, 1.0)), Values(x));
  EXPECT_EQ(CountersFor("testing.scale", "cpu_f32").copies, 1u);
  const Array rows = Counting({3, 4}).Slice(1, 1, 3);  // gaps, but no copy
  EXPECT_EQ(Values(Call("testing.scale", rows, 1.0)), (std::vector<float>{1, 2, 5, 6, 9, 10}));
  EXPECT_EQ(CountersFor("testing.scale", "cpu_f32").copies, 1u);
  EXPECT_EQ(Values(Call("testing.flatten", rows)), Values(rows));  // dense
  EXPECT_EQ(CountersFor("testing.flatten", "cpu_f32").copies, 1u);
}

TEST(Call, CopiesMisalignedInputsAndRefusesMisalignedResults) {
  ResetCounters();
  Array bytes = Array::Zeros({64}, DType::kU8);
  const std::int64_t shape[] = {4};
  const Array x = Array::Wrap(bytes.data<char>() + 1, shape, DType::kF32);
  EXPECT_EQ(Values(Call("testing.scale", x, 1.0)), std::vector<float>(4));
  EXPECT_EQ(CountersFor("testing.scale", "cpu_f32").copies, 1u);
  EXPECT_EQ(ErrorOf([&] { Call("testing.scale", Counting({4}), 1.0).into(x); }),
            "testing.scale: y is at an address that is no multiple of its 4-byte elements, but is "
            "written. Try an aligned tensor.");
}

TEST(Call, WritesScatteredResultsThroughACopyAndCountsIt) {
  ResetCounters();
  const Array x = Counting({2, 3}), y = Array::Zeros({3, 2}, DType::kF32);
  Call("testing.scale", x, 2.0).into(y.Transpose(0, 1));
  EXPECT_EQ(Values(y), (std::vector<float>{0, 6, 2, 8, 4, 10}));
  EXPECT_EQ(CountersFor("testing.scale", "cpu_f32").copies, 1u);
  const Array z = Array::Zeros({2, 6}, DType::kF32);
  const std::int64_t shape[] = {2, 3}, strides[] = {6, 2}, back[] = {6, -2};
  Call("testing.scale", x, 1.0).into(Array::Wrap(z.data(), shape, DType::kF32, strides));
  Call("testing.scale", x, -1.0).into(Array::Wrap(z.data<float>() + 5, shape, DType::kF32, back));
  EXPECT_EQ(Values(z), (std::vector<float>{0, -2, 1, -1, 2, 0, 3, -5, 4, -4, 5, -3}));
  EXPECT_EQ(CountersFor("testing.scale", "cpu_f32").copies, 3u);
  Scope scope;
  scope.strict();
  EXPECT_EQ(ErrorOf([&] { Call("testing.scale", x, 1.0).into(y.Transpose(0, 1)); }),
            "testing.scale: y is f32[2, 3] with strides [1, 2] and would be copied, which strict "
            "mode refuses. Try a contiguous tensor.");
}

TEST(Call, RefusesScatteredResultsOverWhatIsRead) {
  const Array x = Counting({2, 2});
  EXPECT_EQ(ErrorOf([&] { Call("testing.scale", x, 1.0).into(x.Transpose(0, 1)); }).substr(0, 35),
            "testing.scale: y overlaps x in memo");
}

TEST(Call, RefusesRepeatedResults) {
  const Array x = Counting({2, 3}), y = Array::Zeros({3, 2}, DType::kF32);
  const std::int64_t shape[] = {2, 3}, strides[] = {0, 1};
  const Array repeated = Array::Wrap(y.data(), shape, DType::kF32, strides);
  EXPECT_EQ(ErrorOf([&] { Call("testing.scale", x, 1.0).into(repeated); }),
            "testing.scale: y is f32[2, 3] with strides [0, 1], but must have no stride 0, because "
            "it is written. Try a contiguous tensor.");
  const std::int64_t folded[] = {1, 1};
  const Array sliding = Array::Wrap(y.data(), shape, DType::kF32, folded);
  EXPECT_EQ(ErrorOf([&] { Call("testing.scale", x, 1.0).into(sliding); }),
            "testing.scale: y is f32[2, 3] with strides [1, 1], of which some elements share "
            "memory, but it is written. Try a contiguous tensor.");
}

TEST(Call, WritesArgumentsWithGapsThroughCopies) {
  const Array x = Counting({2, 2}), memory = Array::Zeros({2, 4}, DType::kF32);
  (void)Call("testing.accumulate", x, memory.Slice(1, 0, 2)).run();  // dense
  (void)Call("testing.accumulate", x, memory.Slice(1, 0, 2).Transpose(0, 1))
      .run();  // last stride 4
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      EXPECT_EQ(memory.at<float>(i, j), x.at<float>(i, j) + x.at<float>(j, i));
      EXPECT_EQ(memory.at<float>(i, j + 2), 0);
    }
  }
  Scope scope;
  scope.strict(true);
  EXPECT_EQ(ErrorOf([&] { (void)Call("testing.accumulate", x, memory.Slice(1, 0, 2)).run(); }),
            "testing.accumulate: into is f32[2, 2] with strides [4, 1] and would be copied, which "
            "strict mode refuses. Try a contiguous tensor.");
}

TEST(Call, RefusesCopiesThatNoMemoryHolds) {
  float one = 1;
  const std::int64_t shape[] = {(1ll << 61) - 1}, strides[] = {0};
  const Array x = Array::Wrap(&one, shape, DType::kF32, strides);
  int code = 0;
  EXPECT_EQ(ErrorOf([&] { (void)Call("testing.maybe", x).run(); }, &code),
            "testing.maybe: arguments that are not contiguous are copied, but no memory for a "
            "workspace of 9223372036854775807 bytes. Try smaller tensors, or fewer threads.");
  EXPECT_EQ(code, ANYOP_OUT_OF_MEMORY);
  code = 0;
  // Two copies of 2^63 bytes: 0 where the sum wraps.
  EXPECT_NE(ErrorOf([&] { (void)Call("testing.maybe", x, x).run(); }, &code).find("no memory"),
            std::string::npos);
  EXPECT_EQ(code, ANYOP_OUT_OF_MEMORY);
}

TEST(Call, RefusesTensorsOfMoreBytesThanNumbersCount) {
  float one = 1;
  std::int64_t shape[] = {1ll << 40, 1ll << 40, 0}, strides[] = {0, 0, 0};
  DLTensor t{&one, {1, 0}, 3, ToDL(DType::kF32), shape, strides, 0};
  anyop_value frame[3] = {};
  frame[0].tag = ANYOP_TENSOR;
  frame[0].t = &t;
  frame[1].tag = ANYOP_FLOAT;
  EXPECT_EQ(ErrorOf([&] { GetPlan(*Find("testing.scale"), frame); }),
            "testing.scale: x is f32[1099511627776, 1099511627776, 0], but the bytes of a tensor "
            "must be below 2^63.");
  EXPECT_EQ(ErrorOf([&] {
              Array::Wrap(&one, Array::Shape(shape, 2), DType::kF32, Array::Shape(strides, 2));
            }),
            "an array is [1099511627776, 1099511627776] of f32, but its bytes must be below 2^63.");
}

// Subnormal arguments and results, and results that are rounded; an operator and a composition.
TEST(Call, ComputesAsInTheDefaultFloatMode) {
  const Array x = Floats({2, 4}, {1e-40f, -3e-39f, 1.5e-38f, 0.1f, 0.7f, -0.3f, 1e-45f, 1});
  const auto results = [&] {
    std::vector<float> all = Values(Call("testing.scale", x, 0.3));
    const std::vector<float> composed = Values(Call("testing.plus_halves", x));
    all.insert(all.end(), composed.begin(), composed.end());
    return all;
  };
  const std::vector<float> wanted = results();
  for (const OtherMode& other : OtherModes()) {
    const InMode mode(other.mode);
    EXPECT_EQ(results(), wanted) << other.name;
    EXPECT_EQ(ReadFloatMode(), other.mode) << other.name;
    EXPECT_NE(ErrorOf([&] { Call("testing.scale", x, 0.3).into(Floats({2}, {0, 0})); }), "");
    EXPECT_EQ(ReadFloatMode(), other.mode) << other.name;
  }
}

TEST(Call, StrictRefusesCopies) {
  Scope scope;
  scope.strict();
  int code = 0;
  const Array x = Counting({2, 3}).Transpose(0, 1);
  EXPECT_EQ(ErrorOf([&] { (void)Call("testing.scale", x, 1.0).run(); }, &code),
            "testing.scale: x is f32[3, 2] with strides [1, 3] and would be copied, which strict "
            "mode refuses. Try a contiguous tensor.");
  EXPECT_EQ(code, ANYOP_UNSUPPORTED);
}

TEST(Call, HasAPlanOfItsOwnForEachKindOfTensor) {
  Operator& op = *Find("testing.axpy");
  const auto plan = [&](double a, const Array& x, const Array& z) {
    anyop_value frame[] = {Argument(a).value(), Argument(x).value(), Argument(x).value(),
                           Argument(z).value()};
    return GetPlan(op, frame).get();
  };
  const Array none, x = Array::Zeros({4, 8}, DType::kF32);
  const Plan* first = plan(2.0, x, none);
  EXPECT_EQ(plan(3.0, x, none), first);  // a number that is compared with nothing
  const Array others[] = {Array::Zeros({4, 8}, DType::kF64), x.Reshape({8, 4}), x.Reshape({32}),
                          x.Reshape({4, 8, 1}), Array::Zeros({4, 16}, DType::kF32).Slice(1, 0, 8)};
  for (const Array& other : others) {
    EXPECT_NE(plan(2.0, other, none), first);
    EXPECT_EQ(plan(2.0, x, none), first);
  }
  EXPECT_NE(plan(2.0, x, Array::Zeros({4, 8}, DType::kF32)), first);
  EXPECT_EQ(plan(2.0, x, none), first);
}

// k is in no size and no condition, but the kernel's predicate refuses 9.
TEST(Call, HasAPlanOfItsOwnForNumbersThatAPredicateReads) {
  Operator& op = *Find("testing.small");
  const Array none, x = Array::Zeros({4}, DType::kF32);
  const auto plan = [&](std::int64_t k) {
    anyop_value frame[] = {Argument(x).value(), Argument(k).value(), Argument(none).value()};
    return GetPlan(op, frame).get();
  };
  const Plan* first = plan(3);
  EXPECT_EQ(plan(3), first);
  EXPECT_THROW(plan(9), Error);
  EXPECT_NE(plan(4), first);
}

TEST(Call, RefusesOverlapBeforeAnythingIsWritten) {
  const Array buffer = Counting({6});
  const Array x = buffer.Slice(0, 0, 4), y = buffer.Slice(0, 2, 6);
  EXPECT_EQ(
      ErrorOf([&] { Call("testing.scale", x, 2.0).into(y); }),
      "testing.scale: y overlaps x in memory, but must be exactly it (the same address, shape "
      "and strides) or apart. Try a tensor of its own.");
  EXPECT_EQ(Values(buffer), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_NE(ErrorOf([&] { Call("testing.scale", y, 2.0).into(x); }), "");
  Call("testing.scale", x, 2.0).into(x);
  EXPECT_EQ(Values(buffer), (std::vector<float>{0, 2, 4, 6, 4, 5}));
  EXPECT_EQ(ErrorOf([&] { (void)Call("testing.accumulate", x, x).run(); }),
            "testing.accumulate: into overlaps x in memory, but must be apart, because it is "
            "written. Try a tensor of its own.");
}

TEST(Call, ChecksEachElementOfAList) {
  const Array buffer = Counting({8});
  const std::vector<Array> parts{buffer.Slice(0, 0, 2), buffer.Slice(0, 2, 4)};
  EXPECT_EQ(Values(Call("testing.concat", parts)), (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(ErrorOf([&] { Call("testing.concat", parts).into(buffer.Slice(0, 3, 7)); }),
            "testing.concat: y overlaps parts[1] in memory, but must be apart, because it is "
            "written. Try a tensor of its own.");
  const Array wide = Counting({4});
  const std::int64_t shape[] = {2}, strides[] = {2};
  const std::vector<Array> gaps{Array::Wrap(wide.data(), shape, DType::kF32, strides),
                                buffer.Slice(0, 6, 8)};
  EXPECT_EQ(Values(Call("testing.concat", gaps)), (std::vector<float>{0, 2, 6, 7}));
}

TEST(Call, ChecksIndicesBeforeAnythingIsWritten) {
  const Array x = Floats({3, 1}, {1, 2, 3}), cache = Array::Zeros({2, 2, 1}, DType::kF32);
  (void)Call("testing.scatter", x, Ints({3, -1, 0}), cache).run();
  EXPECT_EQ(Values(cache), (std::vector<float>{3, 0, 0, 1}));
  EXPECT_EQ(ErrorOf([&] {
              (void)Call("testing.scatter", x, Ints({1, 2, 4}), cache).run();
            }),
            "testing.scatter: slots[2] is 4, but must be less than 4 (nb*bs, nb is 2, bs is 2).");
  EXPECT_EQ(Values(cache), (std::vector<float>{3, 0, 0, 1}));
  const Array flat = Array::Zeros({4, 1}, DType::kF32);
  EXPECT_EQ(ErrorOf([&] {
              (void)Call("testing.scatter", x, Ints({9, 0, 1}), flat).run();
            }),
            "testing.scatter: slots[0] is 9, but must be less than 4 (s).");
}

TEST(Call, ChecksOffsets) {
  const Array x = Floats({4}, {1, 2, 3, 4});
  EXPECT_EQ(Values(Call("testing.segment_sum", x, Ints({0, 1, 1, 4}))),
            (std::vector<float>{1, 0, 9}));
  const auto error = [&](std::initializer_list<std::int64_t> starts) {
    return ErrorOf([&] { (void)Call("testing.segment_sum", x, Ints(starts)).run(); });
  };
  EXPECT_EQ(error({1, 4}), "testing.segment_sum: starts[0] is 1, but must be 0.");
  EXPECT_EQ(
      error({0, 3, 2}),
      "testing.segment_sum: starts[2] is 2, but must not be less than starts[1], which is 3.");
  EXPECT_EQ(error({0, 5}), "testing.segment_sum: starts[1] is 5, but must be at most 4 (t).");
  EXPECT_EQ(
      error({0, -1, 4}),
      "testing.segment_sum: starts[1] is -1, but must not be less than starts[0], which is 0.");
}

TEST(Call, RunsTheOperatorsCheckFirst) {
  const Array y = Array::Zeros({2}, DType::kF32);
  int code = 0;
  EXPECT_EQ(ErrorOf(
                [&] {
                  Call("testing.not_negative", Floats({2}, {1, -1})).into(y);
                },
                &code),
            "testing.not_negative: x[1] is negative.");
  EXPECT_EQ(code, ANYOP_INVALID_ARGUMENT);
  EXPECT_EQ(Values(y), (std::vector<float>{0, 0}));
  Call("testing.not_negative", Floats({2}, {1, 2})).into(y);
  EXPECT_EQ(Values(y), (std::vector<float>{1, 2}));
}

TEST(Call, PassesAnAlignedWorkspace) {
  const Array x = Array::Zeros({5, 7}, DType::kF32);
  EXPECT_EQ(Values(Call("testing.uses_workspace", x)), (std::vector<float>{21, 56, 0}));
  EXPECT_EQ(Values(Call("testing.uses_workspace", x, 4)), (std::vector<float>{28, 56, 0}));
}

TEST(Call, TurnsExceptionsOfKernelsIntoErrors) {
  int code = 0;
  const auto error = [&](int what) {
    return ErrorOf([&] { (void)Call("testing.throwing", what).run(); }, &code);
  };
  EXPECT_EQ(error(1), "testing.throwing: out of memory.");
  EXPECT_EQ(code, ANYOP_OUT_OF_MEMORY);
  EXPECT_EQ(error(2), "testing.throwing: what is 2.");
  EXPECT_EQ(code, ANYOP_INVALID_ARGUMENT);
  EXPECT_EQ(error(3),
            "testing.throwing: broken. The operator's own code says so; it is of library testing.");
  EXPECT_EQ(code, ANYOP_INTERNAL);
  EXPECT_NE(error(4), "");
}

TEST(Call, SkipsTheKernelWhenThereIsNothingToWrite) {
  ResetCounters();
  EXPECT_EQ(Array(Call("testing.scale", Array::Zeros({0, 4}, DType::kF32), 1.0)).size(), 0);
  EXPECT_EQ(CountersFor("testing.scale", "cpu_f32").calls, 0u);
}

TEST(Call, LeavesOutDeclinedResults) {
  const Array low = Array::Zeros({1}, DType::kF32), x = Floats({3}, {2, 1, 3});
  Call("testing.extremes", x).into(low, Array());
  EXPECT_EQ(Values(low), std::vector<float>{1});
  const std::vector<Array> both = Call("testing.extremes", x);
  EXPECT_EQ(Values(both[1]), std::vector<float>{3});
  EXPECT_EQ(ErrorOf([&] { Call("testing.scale", x, 1.0).into(Array()); }),
            "testing.scale: the result y cannot be declined.");
}

TEST(Call, AllocatesNothingInTheSteadyState) {
  const Array x = Array::Zeros({4, 64}, DType::kF32), y = Array::Zeros({4, 64}, DType::kF32);
  const Array slots = Ints({0, 1, 2, 3}), three = Array::Zeros({3}, DType::kF32);
  const Array turned = Array::Zeros({64, 4}, DType::kF32).Transpose(0, 1);
  Operator *scale = Find("testing.scale"), *scatter = Find("testing.scatter"),
           *tiled = Find("testing.uses_workspace");
  const auto calls = [&] {
    Call(scale, x, 1.0).into(y);
    Call(scale, turned, 1.0).into(y);
    Call(scatter, x, slots, y).into();
    Call(tiled, x).into(three);
  };
  calls();
  const long before = allocations;
  for (int i = 0; i < 10; ++i) calls();
  EXPECT_EQ(allocations, before);
}

TEST(Array, CopiesAndViewsHaveSizesOfTheirOwn) {
  Array copy;
  {
    const Array a = Array::Full({2, 3, 4}, DType::kF32, 5);
    copy = a.Slice(1, 1, 3).Transpose(0, 2);
    EXPECT_EQ(a.tensor().strides, nullptr);
    EXPECT_EQ(a.dim(1), 3);
  }
  const std::vector<Array> moved{std::move(copy)};
  const Tensor& t = moved[0].tensor();
  EXPECT_EQ(std::vector<std::int64_t>(t.shape, t.shape + 3), (std::vector<std::int64_t>{4, 2, 2}));
  EXPECT_EQ(std::vector<std::int64_t>(t.strides, t.strides + 3),
            (std::vector<std::int64_t>{1, 4, 12}));
  EXPECT_EQ(moved[0].at<float>(3, 1, 1), 5);
  EXPECT_FALSE(moved[0].is_contiguous());
  EXPECT_TRUE(moved[0].Transpose(0, 2).Slice(0, 0, 1).is_contiguous());
}

TEST(Array, IsReadByThreadsAtOnce) {
  const Array x = Array::Full({64}, DType::kF32, 1);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&x] {
      for (int k = 0; k < 100; ++k) {
        const Array y = x;
        EXPECT_EQ(y.at<float>(k % 64) + float(x.tensor().shape[0]), 65);
      }
    });
  }
}

TEST(Call, ReachesAnObserverThroughTheEntry) {
  static int seen = 0;
  Operator& op = *Find("testing.scale");
  op.entry = [](Operator& o, Plan& p, anyop_value* frame) {
    ++seen;
    RunPlan(o, p, frame);
  };
  const Array y = Call(&op, Floats({1}, {2}), 2.0);
  op.entry = &RunPlan;
  EXPECT_EQ(seen, 1);
  EXPECT_EQ(Values(y), std::vector<float>{4});
}

TEST(Find, NamesTheNearestOperator) {
  int code = 0;
  EXPECT_EQ(ErrorOf([] { Find("testing.scael"); }, &code),
            "there is no operator 'testing.scael'. Did you mean 'testing.scale'?");
  EXPECT_EQ(code, ANYOP_NOT_AVAILABLE);
}

TEST(Composition, AnErrorOfAStatementNamesTheCompositionThatCalledIt) {
  EXPECT_EQ(ErrorOf([] { Call("testing.scaled_sum", Counting({4}), Counting({4}), 1e31).run(); }),
            "testing.scale: s < 1e30 must hold, but s is 1e+31.\n"
            "  in .means of testing.scaled_sum, which calls scale");
}

}  // namespace
}  // namespace anyop::call_test
