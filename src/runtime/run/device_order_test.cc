// SPDX-License-Identifier: Apache-2.0
// Events and late errors of several streams, arguments at odd addresses, and check mode on a
// device.
#include "runtime/device/device.h"
#include "runtime/observe/check_mode.h"
#include "runtime/run/counters.h"
#include "runtime/testing/on_far.h"

namespace anyop::device_order_test {
namespace {

// ---- Events.

Device Near() {
  static const bool is_there = [] {
    auto near = std::make_unique<DeviceKind>(DeviceKindOf(Far().dl()));
    near->word = near->table.word = "near", near->table.dlpack_type = 14;
    near->file = "near.so";
    RegisterDevice(std::move(near));
    return true;
  }();
  return Device(is_there ? "near" : "");
}

TEST(DeviceEvents, AreOfOneKindOfDevice) {
  const Stream far(Far()), near(Near());
  const Event of_far = far.Record(), of_near = near.Record();
  int code = 0;
  EXPECT_EQ(ErrorOf([&] { far.Wait(of_near); }, &code),
            "a stream of far:0 cannot wait for an event of near, but of far alone. Try "
            "Synchronize of the event, which the host waits for.");
  EXPECT_EQ(code, ANYOP_INVALID_ARGUMENT);
  EXPECT_EQ(ErrorOf([&] { ElapsedMs(of_far, of_near); }, &code),
            "time since an event of far cannot be told at an event of near, but of far alone. Try "
            "Synchronize of the event, which the host waits for.");
  EXPECT_EQ(code, ANYOP_INVALID_ARGUMENT);
  near.Wait(of_near);
  Stream(Far(1)).Wait(of_far);
}

// ---- Late errors.

const char* const kLate = "testing.scatter: slots[0] is 9, but must be less than 4 (s).";

// Work on the stream that fails when it runs.
struct Failing {
  explicit Failing(const Stream& on)
      : cache(OnFar(Array::Zeros({4, 2}, DType::kF32))),
        x(OnFar(Counting({1, 2}))),
        slots(OnFar(Ints({9}))) {
    const StreamScope scope(on);
    Call("testing.scatter", x, slots, cache).into();
  }
  const Array cache, x, slots;  // which the stream still reads
};

TEST(DeviceLateErrors, AreOfWhatWaitsForTheResult) {
  const Stream first(Far()), second(Far());
  const Failing work(first);
  second.Wait(first.Record());
  const StreamScope scope(second);
  const std::string error = ErrorOf([&] { work.cache.On(Device()); });
  EXPECT_EQ(error, kLate + std::string(" This is of earlier work on far:0, whose results are not "
                                       "to be used."));
  EXPECT_NE(ErrorOf([&] { first.Synchronize(); }), "") << "the stream whose work it was";
  EXPECT_EQ(FromFar(work.cache), std::vector<float>(8, 0));
}

TEST(DeviceLateErrors, AreOfNobodyElse) {
  const Stream first(Far()), second(Far());
  const Failing work(first);
  const Array x = OnFar(Counting({4}));
  {
    const StreamScope scope(second);
    EXPECT_EQ(FromFar(Call("testing.scale", x, 2.0)), (std::vector<float>{0, 2, 4, 6}));
  }
  EXPECT_NE(ErrorOf([&] { first.Synchronize(); }), "");
}

TEST(DeviceLateErrors, AreToldByAnEvent) {
  const Stream s(Far());
  const Failing work(s);
  EXPECT_EQ(ErrorOf([&] { s.Record().Synchronize(); }), std::string("far:0: ") + kLate);
  EXPECT_EQ(ErrorOf([&] { s.Synchronize(); }), "");
}

TEST(DeviceLateErrors, AreNoFailuresToAskForThem) {
  void* dead = nullptr;
  {
    const Stream s(Far());
    dead = s.native();
  }
  const Array x = OnFar(Counting({4}));
  const StreamScope scope(Stream::Wrap(Far(), dead));
  EXPECT_EQ(ErrorOf([&] { Array(Call("testing.scale", x, 2.0)); }),
            "far:0: the stream is none of far, or it was destroyed.");
}

// ---- Addresses.

// Of [rows, columns], two bytes behind where it should begin.
struct Odd {
  Odd(std::int64_t rows, std::int64_t columns, bool is_transposed, Device device)
      : memory(Array::Zeros({rows * columns + 1}, DType::kF32, device)), shape{rows, columns} {
    Array host = Array::Zeros({rows * columns + 1}, DType::kF32);
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      const float value = float(i);
      std::memcpy(static_cast<char*>(host.data()) + 2 + i * 4, &value, sizeof value);
    }
    memory = host.On(device);
    if (is_transposed) strides[0] = 1, strides[1] = rows;
    tensor = memory.tensor();
    tensor.ndim = 2;
    tensor.shape = shape;
    tensor.strides = is_transposed ? strides : nullptr;
    tensor.byte_offset = 2;
  }
  Array memory;
  std::int64_t shape[2], strides[2] = {0, 0};
  DLTensor tensor;
};

std::vector<float> Scaled(const Odd& x) {
  return Values(Array(Call("testing.scale", x.tensor, 2.0)).On(Device()));
}

TEST(DeviceAddresses, AreAlignedForKernels) {
  for (const bool is_transposed : {false, true}) {
    const Odd there(3, 4, is_transposed, Far()), here(3, 4, is_transposed, Device());
    EXPECT_EQ(Scaled(there), Scaled(here));
    Scope scope;
    scope.strict();
    EXPECT_EQ(ErrorOf([&] { Scaled(there); }), ErrorOf([&] { Scaled(here); }));
    EXPECT_NE(ErrorOf([&] { Scaled(there); }), "");
  }
}

TEST(DeviceAddresses, AreAlignedForTheDevicesOwnPacking) {
  static const DLTensor* packed = nullptr;
  static DLTensor seen;
  const Odd there(3, 4, /*is_transposed=*/true, Far());
  const Array aligned = there.memory;
  WatchedFar far;
  far.table.pack = [](anyop_stream, const DLTensor* from, void*) -> int {
    packed = from, seen = *from;
    return ANYOP_OK;
  };
  Array(Call("testing.scale", there.tensor, 2.0)).On(Device());
  ASSERT_NE(packed, nullptr);
  EXPECT_EQ(AddressOf(seen) % 4, 0u);
}

// ---- Check mode.

TEST(DeviceCheckMode, WatchesKernelsOfTheHost) {
  const Array x = OnFar(Counting({2, 3}));
  const Checking checking;
  int code = 0;
  const std::string error = ErrorOf([&] { Array(Call("testing.defect", x, "behind")); }, &code);
  EXPECT_EQ(error.substr(0, error.find('\n')),
            "testing.defect: the kernel cpu_f32 wrote outside y, f32[2, 3]: byte 1 after its end "
            "has changed. This is a defect of the operator. Please report it. [write-outside]");
  EXPECT_EQ(code, ANYOP_INTERNAL);
  EXPECT_EQ(FromFar(Call("testing.scale", x, 2.0)), (std::vector<float>{0, 2, 4, 6, 8, 10}));
  Array cache = OnFar(Array::Zeros({4, 2}, DType::kF32));
  Call("testing.scatter", OnFar(Counting({2, 2})), OnFar(Ints({0, 3})), cache).into();
  EXPECT_EQ(FromFar(cache), (std::vector<float>{0, 1, 0, 0, 0, 0, 2, 3}));
  EXPECT_EQ(ErrorOf([&] {
              Call("testing.scatter", OnFar(Counting({1, 2})), OnFar(Ints({9})), cache).into();
            }),
            kLate);
}

TEST(DeviceCheckMode, CountsAndRefusesCopiesAsWithoutIt) {
  const Array x = Column(OnFar(Counting({3, 2})), 0);
  const auto call = [&] { return ErrorOf([&] { Array(Call("testing.whole", x)); }); };
  const auto copies = [] {
    for (const CounterRow& r : Counters()) {
      if (r.op == "testing.whole" && r.device == "far:0") return r.copies;
    }
    return decltype(CounterRow::copies){0};
  };
  const Checking checking;
  const auto before = copies();
  EXPECT_EQ(call(), "");
  EXPECT_EQ(copies(), before + 1);
  Scope scope;
  scope.strict();
  EXPECT_EQ(call(),
            "testing.whole: x is f32[3] with strides [2] and would be copied, which strict mode "
            "refuses. Try a contiguous tensor.");
}

TEST(DeviceCheckMode, LooksAtWhatAnOperatorSaysOfItsData) {
  const Array x = OnFar(Floats({2}, {1, -1}));
  EXPECT_EQ(ErrorOf([&] { Array(Call("testing.whole", x)).On(Device()); }), "");
  const Checking checking;
  EXPECT_EQ(ErrorOf([&] { Array(Call("testing.whole", OnFar(Floats({1}, {0.5})))); }),
            ErrorOf([&] { Array(Call("testing.whole", Floats({1}, {0.5}))); }));
  EXPECT_NE(ErrorOf([&] { Array(Call("testing.whole", OnFar(Floats({1}, {0.5})))); }), "");
  EXPECT_EQ(ErrorOf([&] { Array(Call("testing.composed", OnFar(Floats({1}, {0.5})))); }),
            ErrorOf([&] { Array(Call("testing.composed", Floats({1}, {0.5}))); }));
  EXPECT_NE(ErrorOf([&] { Array(Call("testing.composed", OnFar(Floats({1}, {0.5})))); }), "");
}

}  // namespace
}  // namespace anyop::device_order_test
