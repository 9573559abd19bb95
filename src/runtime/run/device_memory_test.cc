// SPDX-License-Identifier: Apache-2.0
// The memory of calls on a device: when it is given back, and what happens where there is none.
#include <functional>

#include "runtime/run/call.h"
#include "runtime/run/device_copy.h"
#include "runtime/testing/on_far.h"

namespace anyop::device_memory_test {
namespace {

// Far has no room for pieces of some size, as often as it says.
class Full {
 public:
  explicit Full(std::uint64_t bytes, int times = 1 << 30) {
    refused_bytes = bytes, left = times;
    far.table.allocate = [](int32_t number, anyop_stream s, std::uint64_t n, void** memory) {
      if (n == refused_bytes && left-- > 0) return int(ANYOP_OUT_OF_MEMORY);
      const int code = WatchedFar::real.allocate(number, s, n, memory);
      WatchedFar::allocations += code == ANYOP_OK;
      return code;
    };
    far.table.error_text = [] { return "there is no room."; };
  }
  WatchedFar far;

 private:
  static inline std::uint64_t refused_bytes = 0;
  static inline int left = 0;
};

template <class F>
std::string NoRoom(F&& f) {
  int code = ANYOP_OK;
  const std::string text = ErrorOf(f, &code);
  EXPECT_EQ(code, ANYOP_OUT_OF_MEMORY) << text;
  return text;
}

TEST(DeviceMemory, IsAskedForOnceMoreWhenReleasesAreOver) {
  Full full(400, 1);
  const Array x = Array::Empty({100}, DType::kF32, Far());
  EXPECT_EQ(full.far.waits, 1);
  EXPECT_EQ(full.far.allocations, 1);
}

TEST(DeviceMemory, IsAskedForOnceAloneWhereSomethingElseIsWrong) {
  WatchedFar far;
  far.table.allocate = [](int32_t, anyop_stream, std::uint64_t, void**) {
    return ++WatchedFar::allocations, int(ANYOP_INTERNAL);
  };
  EXPECT_NE(ErrorOf([] { Array::Empty({100}, DType::kF32, Far()); }), "");
  EXPECT_EQ(far.allocations, 1);
  EXPECT_EQ(far.waits, 0);
}

TEST(DeviceMemory, OfAnArrayIsRefusedWithTheReason) {
  Full full(400);
  EXPECT_EQ(NoRoom([] { Array::Empty({100}, DType::kF32, Far()); }), "far:0: there is no room.");
  EXPECT_EQ(full.far.allocations, 0);
}

TEST(DeviceMemory, OfAResultIsRefusedAndNothingIsLeft) {
  const Array x = OnFar(Counting({100}));
  Full full(400);
  EXPECT_EQ(NoRoom([&] { Array(Call("testing.scale", x, 2.0)); }), "far:0: there is no room.");
  EXPECT_EQ(full.far.submits, 0);
}

TEST(DeviceMemory, OfAWorkspaceIsRefusedAndNothingIsLeft) {
  const Array x = OnFar(Counting({1, 64}));
  const Array wanted = Call("testing.uses_workspace", x, 3);
  Synchronize(Far());
  const Plan& plan = *SlotFor(*Find("testing.uses_workspace")).last;
  const int before = plan.references;
  {
    Full full(512);
    EXPECT_EQ(NoRoom([&] { Array(Call("testing.uses_workspace", x, 3)); }),
              "far:0: there is no room.");
    EXPECT_EQ(full.far.submits, 0);
    EXPECT_EQ(full.far.allocations, full.far.releases);
    EXPECT_EQ(plan.references, before);
  }
  EXPECT_EQ(FromFar(Call("testing.uses_workspace", x, 3)), FromFar(wanted));
}

TEST(DeviceMemory, OfACopyIsRefusedAndNothingIsLeft) {
  const Array x = OnFar(Counting({3, 40}));
  Full full(480);
  const Array out = Array::Empty({2}, DType::kF32, Far());
  EXPECT_EQ(NoRoom([&] { Call("testing.flatten", x.Transpose(0, 1)).run(); }),
            "far:0: there is no room.");
  EXPECT_EQ(NoRoom([&] { x.Transpose(0, 1).On(Device()); }), "far:0: there is no room.");
  EXPECT_EQ(full.far.allocations - 1, full.far.releases);  // `out` is still there
  EXPECT_EQ(full.far.submits, 0);
}

TEST(DeviceMemory, IsGivenBackToTheStreamThatItCameFrom) {
  WatchedFar far;
  static anyop_stream last;
  far.table.release = [](int32_t number, anyop_stream s, void* memory) {
    last = s;
    return WatchedFar::real.release(number, s, memory);
  };
  const Stream mine(Far()), other(Far());
  Array x;
  {
    const StreamScope scope(mine);
    x = Array::Empty({100}, DType::kF32, Far());
  }
  const StreamScope scope(other);
  x = {};
  EXPECT_EQ(last, mine.native());
}

TEST(DeviceMemory, OfACallIsGivenBackOnce) {
  const Array x = OnFar(Counting({3, 4})), row = OnFar(Counting({1, 64}));
  WatchedFar far;
  const auto left = [&] { return far.allocations - far.releases; };
  for (int i = 0; i < 3; ++i) Array(Call("testing.uses_workspace", row, 3));
  EXPECT_EQ(far.allocations, 6);  // results and workspaces
  EXPECT_EQ(left(), 0);
  const Array y = Call("testing.scale", x.Transpose(0, 1), 2.0);
  EXPECT_EQ(left(), 1);
  EXPECT_EQ(far.allocations, 8);  // the result, a copy, and no workspace
  (void)FromFar(x.Transpose(0, 1));
  EXPECT_EQ(left(), 1);
}

// A copy that may still be under way keeps the host's memory; one that is over gives it back.
TEST(DeviceMemory, OfTheHostIsKeptWhereNobodyKnowsWhenACopyIsOver) {
  static int left;
  const Array x = Counting({1000}), there = OnFar(x);
  WatchedFar far;
  far.table.synchronize = [](int32_t number, anyop_stream s) {
    return left-- > 0 ? int(ANYOP_INTERNAL) : WatchedFar::real.synchronize(number, s);
  };
  far.table.error_text = [] { return "the card is asleep."; };
  const auto copies = [&](int failures) {
    for (const auto& copy : {std::function<void()>([&] { there.On(Device()); }),
                             std::function<void()>([&] { x.On(Far()); })}) {
      left = failures;
      try {
        copy();
        ADD_FAILURE() << "it says nothing";
      } catch (const StillCopying& e) {
        EXPECT_EQ(failures, 3) << e.what();
      } catch (const Error& e) {
        EXPECT_LT(failures, 3) << e.what();
        EXPECT_STREQ(e.what(), "far:0: the card is asleep.");
      }
    }
  };
  copies(1), copies(2), copies(3);
  left = 0;
  EXPECT_EQ(FromFar(there), Values(x));
}

TEST(DeviceMemory, OfNothingIsNotAskedFor) {
  const Array x = OnFar(Array::Empty({0, 4}, DType::kF32));
  WatchedFar far;
  const Array y = Call("testing.scale", x, 2.0);
  EXPECT_EQ(y.device(), Far());
  EXPECT_EQ(far.submits, 0);
  EXPECT_EQ(FromFar(y), std::vector<float>());
  EXPECT_EQ(far.to_host, 0);
}

}  // namespace
}  // namespace anyop::device_memory_test
