// SPDX-License-Identifier: Apache-2.0
// What a kernel of the host finds when a thread of the far device runs it.
#include "runtime/run/packed_call.h"

#include <sys/mman.h>

#include <cmath>
#include <limits>

#include "platform/float_mode.h"
#include "runtime/run/call.h"
#include "runtime/testing/on_far.h"

namespace anyop::packed_call_test {
namespace {

// A device's thread in another float mode than the default: subnormal numbers count as zero.
#if defined(__x86_64__)
constexpr std::uint64_t kFlushing = kDefaultFloatMode | 0x8040;
#else
constexpr std::uint64_t kFlushing = kDefaultFloatMode | 1 << 24;
#endif
std::uint64_t g_found = 0;
int SetMode(void* block, char* message, std::uint64_t) {
  if (!message) return ANYOP_OK;
  g_found = ReadFloatMode();
  WriteFloatMode(*static_cast<const std::uint64_t*>(block));
  return ANYOP_OK;
}
// Sets the mode of the stream's thread; returns that from before.
std::uint64_t Become(const Stream& stream, std::uint64_t mode) {
  const anyop_launch launch{sizeof launch, 0, "mode", &SetMode, &mode, sizeof mode, nullptr};
  EXPECT_EQ(DeviceKindOf(Far().dl()).table.submit(stream.native(), &launch), ANYOP_OK);
  stream.Synchronize();
  return g_found;
}

TEST(PackedCall, RunsInTheDefaultFloatMode) {
  const Stream s(Far());
  const StreamScope scope(s);
  Become(s, kFlushing);
  const float least = std::numeric_limits<float>::denorm_min();
  const Array y = Call("testing.scale", OnFar(Floats({2}, {least, 3 * least})), 1.0);
  EXPECT_EQ(FromFar(y), (std::vector<float>{least, 3 * least}));
  EXPECT_EQ(Become(s, kDefaultFloatMode), kFlushing);  // the thread has its own again
}

TEST(PackedCall, HasWordsWithANulBehindThem) {
  const Array x = OnFar(Counting({3}));
  for (const char* word : {"absolute", "relative"}) {
    EXPECT_EQ(FromFar(Call("testing.spell", x, word)), std::vector<float>{8});
  }
}

TEST(PackedCall, HasItsListsOfNumbers) {
  const Array x = OnFar(Counting({3}));
  std::vector<std::int64_t> of = {1, 2, -1};
  std::vector<double> with = {0.25, 0.25};
  const Stream stream = Stream::Current(Far());
  Held held(stream);
  const Array y = Call("testing.numbers", x, of, with);
  of = {9, 9, 9}, with = {9, 9};  // they were read
  held.LetGo();
  EXPECT_EQ(FromFar(y), (std::vector<float>{0.5, 2.5, 4.5}));
  EXPECT_EQ(FromFar(Call("testing.numbers", x, std::vector<std::int64_t>(), with)),
            std::vector<float>(3, 18));
}

TEST(PackedCall, HasTensorsThatBeginWithinAnArray) {
  const Array x = OnFar(Counting({4, 3}));
  EXPECT_EQ(FromFar(Call("testing.scale", x.Slice(0, 1, 3), 2.0)),
            (std::vector<float>{6, 8, 10, 12, 14, 16}));
  const Array out = OnFar(Array::Zeros({3, 2}, DType::kF32));
  Call("testing.scale", x.Slice(0, 3, 4).Slice(1, 1, 3), 1.0).into(out.Slice(0, 1, 2));
  EXPECT_EQ(FromFar(out), (std::vector<float>{0, 0, 10, 11, 0, 0}));
  EXPECT_EQ(FromFar(Call("testing.flatten", x.Slice(0, 2, 4).Slice(1, 1, 3))),
            (std::vector<float>{7, 8, 10, 11}));
}

TEST(PackedCall, TakesNothingThatLiesAnywhere) {
  const Array x = OnFar(Counting({8})), at = OnFar(Ints({6})), by = OnFar(Ints({1}));
  DLTensor nothing = OnFar(Array::Empty({0}, DType::kF32)).tensor();
  std::int64_t none = 0;
  nothing.shape = &none, nothing.data = reinterpret_cast<void*>(std::uintptr_t{16});
  EXPECT_EQ(FromFar(Call("testing.picked", x, at, by, nothing)), std::vector<float>{7});
}

TEST(PackedCall, TellsALateErrorWithTheOperatorsNameInFrontOnce) {
  const Array y = Array::Zeros({1}, DType::kF32, Far());
  const std::string end = " This is of earlier work on far:0, whose results are not to be used.";
  Call("testing.throwing", 2).into(y);
  EXPECT_EQ(ErrorOf([&] { y.On(Device()); }), "testing.throwing: what is 2." + end);
  const Array bad = OnFar(Floats({2}, {1, -1}));
  Array z = Call("testing.not_negative", bad);
  EXPECT_EQ(ErrorOf([&] { z.On(Device()); }), "testing.not_negative: x[1] is negative." + end);
}

TEST(PackedCall, GivesEverythingBackWhenItIsNotTaken) {
  const Array x = OnFar(Counting({1, 64}));
  const Array wanted = Call("testing.uses_workspace", x, 3);
  Synchronize(Far());
  const Plan& plan = *SlotFor(*Find("testing.uses_workspace")).last;
  const int before = plan.references;
  WatchedFar far;
  far.table.submit = [](anyop_stream, const anyop_launch*) -> int { return ANYOP_INTERNAL; };
  far.table.error_text = [] { return "the queue is full."; };
  int code = ANYOP_OK;
  EXPECT_EQ(ErrorOf([&] { Array(Call("testing.uses_workspace", x, 3)); }, &code),
            "far:0: the queue is full.");
  EXPECT_EQ(code, ANYOP_INTERNAL);
  EXPECT_EQ(plan.references, before);
  EXPECT_EQ(far.allocations, 2);  // the result and the workspace
  EXPECT_EQ(far.releases, 2);
}

// ---- Planned tensors go along.

// As large as it says, and nothing of it may be read.
class Reserved {
 public:
  explicit Reserved(std::int64_t n)
      : n_(n),
        memory_(
            mmap(nullptr, bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    EXPECT_NE(memory_, MAP_FAILED);
  }
  ~Reserved() { munmap(memory_, bytes()); }
  Reserved(const Reserved&) = delete;
  Reserved& operator=(const Reserved&) = delete;
  DLTensor tensor() { return {memory_, Device().dl(), 1, ToDL(DType::kI64), &n_, nullptr, 0}; }

 private:
  std::size_t bytes() const { return std::size_t(n_) * 8; }
  std::int64_t n_;
  void* memory_;
};

std::string TooMuch(const std::string& bytes) {
  return "testing.scheduled: the planned tensors have " + bytes +
         " bytes, but at most 2^30 go along with a call's work. Try smaller tensors.";
}

TEST(PackedCall, TakesPlannedTensorsUpToALimitOfAllTogether) {
  const Array x = OnFar(Counting({4})), few = Ints({1, 2});
  Reserved over((1 << 27) + 1), most(1 << 27);
  int code = ANYOP_OK;
  const auto error = [&](const DLTensor& first, const DLTensor& second) {
    return ErrorOf([&] { Array(Call("testing.scheduled", x, first, second)); }, &code);
  };
  EXPECT_EQ(error(over.tensor(), few.tensor()), TooMuch("1073741848"));
  EXPECT_EQ(code, ANYOP_UNSUPPORTED);
  EXPECT_EQ(error(few.tensor(), most.tensor()), TooMuch("1073741840"));
  EXPECT_EQ(error(few.tensor(), few.tensor()), "");
  Synchronize(Far());
}

TEST(PackedCall, CopiesNoPlannedTensorThatIsTooLarge) {
  const Array x = OnFar(Counting({4})), few = Ints({1, 2});
  Reserved room(std::int64_t{1} << 29);  // whoever reads of it ends the process
  std::int64_t shape = std::int64_t{1} << 28, repeated = 0, spread = 2;
  DLTensor huge = room.tensor();
  huge.shape = &shape;
  for (std::int64_t* const stride : {&repeated, &spread}) {
    huge.strides = stride;
    EXPECT_EQ(ErrorOf([&] { Array(Call("testing.scheduled", x, huge, few)); }),
              TooMuch("2147483664"));
  }
}

}  // namespace
}  // namespace anyop::packed_call_test
