// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/overlap.h"

#include <array>
#include <random>
#include <set>

#include "runtime/testing/testing.h"

namespace anyop::overlap_test {
namespace {

// The elements that a view of at most two dimensions touches, one by one.
std::set<std::uintptr_t> Bytes(const Array& a) {
  std::set<std::uintptr_t> bytes;
  const std::int64_t n = a.rank() > 1 ? a.dim(1) : 1;
  for (std::int64_t i = 0; i < a.dim(0); ++i) {
    for (std::int64_t k = 0; k < n; ++k) {
      const std::int64_t offset = i * a.stride(0) + (a.rank() > 1 ? k * a.stride(1) : 0);
      const auto at = reinterpret_cast<std::uintptr_t>(a.data<float>() + offset);
      for (int b = 0; b < 4; ++b) bytes.insert(at + std::uintptr_t(b));
    }
  }
  return bytes;
}

bool ReallyMeet(const Array& a, const Array& b) {
  const auto x = Bytes(a), y = Bytes(b);
  return std::any_of(x.begin(), x.end(), [&](auto at) { return y.count(at) > 0; });
}

TEST(Overlap, SeesSlicesOfAPackedBufferApart) {
  const Array qkv = Array::Zeros({5, 12}, DType::kF32);
  const Array q = qkv.Slice(1, 0, 4), k = qkv.Slice(1, 4, 8), v = qkv.Slice(1, 8, 12);
  EXPECT_FALSE(MayShareMemory(q.tensor(), k.tensor()));
  EXPECT_FALSE(MayShareMemory(v.tensor(), q.tensor()));
  EXPECT_TRUE(MayShareMemory(q.tensor(), qkv.Slice(1, 3, 5).tensor()));
  EXPECT_TRUE(MayShareMemory(q.tensor(), qkv.tensor()));
}

TEST(Overlap, GivesASingleRunThePitchOfTheOther) {
  const Array qkv = Array::Zeros({5, 12}, DType::kF32);
  const Array row = qkv.Slice(0, 2, 3);  // one run: a row
  EXPECT_FALSE(MayShareMemory(qkv.Slice(1, 0, 4).tensor(), row.Slice(1, 4, 8).tensor()));
  EXPECT_TRUE(MayShareMemory(qkv.Slice(1, 0, 4).tensor(), row.tensor()));
}

TEST(Overlap, IsNeverMissed) {
  std::mt19937 random(7);
  const Array buffer = Array::Zeros({64}, DType::kF32);
  const auto view = [&] {
    std::int64_t shape[2], strides[2];
    for (int d = 0; d < 2; ++d) {
      shape[d] = std::int64_t(random() % 4);
      strides[d] = std::int64_t(random() % 7);
    }
    return Array::Wrap(buffer.data<float>() + random() % 40, shape, DType::kF32, strides);
  };
  int met = 0, told_apart = 0;
  for (int i = 0; i < 20000; ++i) {
    const Array a = view(), b = view();
    const bool meet = ReallyMeet(a, b);
    met += meet;
    const bool may = MayShareMemory(a.tensor(), b.tensor());
    ASSERT_TRUE(may || !meet) << "strides " << a.stride(0) << " " << a.stride(1);
    told_apart += !may && Meet(ExtentOf(a.tensor()), ExtentOf(b.tensor()));
  }
  EXPECT_GT(met, 1000);
  EXPECT_GT(told_apart, 10);
}

// A device counts its addresses as it likes.
TEST(Overlap, IsOfOnePlaceAlone) {
  const Array x = Array::Zeros({2, 3}, DType::kF32);
  DLTensor there = x.tensor();
  EXPECT_TRUE(MayShareMemory(x.tensor(), there) && IsSameMemory(x.tensor(), there));
  for (const DLDevice device : {DLDevice{12, 0}, DLDevice{1, 1}}) {
    there.device = device;
    EXPECT_FALSE(MayShareMemory(x.tensor(), there) || IsSameMemory(x.tensor(), there));
  }
}

TEST(Overlap, KnowsTheSameMemory) {
  const Array x = Array::Zeros({2, 3}, DType::kF32);
  EXPECT_TRUE(IsSameMemory(x.tensor(), x.Slice(0, 0, 2).tensor()));
  EXPECT_FALSE(IsSameMemory(x.tensor(), x.Reshape({3, 2}).tensor()));
  const std::int64_t shape[] = {2, 3}, zero[] = {0, 1};
  const Array repeated = Array::Wrap(x.data(), shape, DType::kF32, zero);
  EXPECT_FALSE(IsSameMemory(repeated.tensor(), repeated.tensor()));
  EXPECT_TRUE(MayMeetItself(repeated.tensor()));
  EXPECT_FALSE(MayMeetItself(x.Transpose(0, 1).tensor()));
}

TEST(Overlap, SeesOneElementThatTwoRowsShare) {
  const Array x = Array::Zeros({8}, DType::kF32);
  const std::int64_t shape[] = {2, 4}, touching[] = {3, 1}, apart[] = {4, 1}, turned[] = {1, 2};
  const auto meets = [&](std::span<const std::int64_t> strides) {
    return MayMeetItself(Array::Wrap(x.data<float>(), shape, DType::kF32, strides).tensor());
  };
  EXPECT_TRUE(meets(touching));
  EXPECT_FALSE(meets(apart));
  EXPECT_FALSE(meets(turned));
}

TEST(Overlap, LetsAnEmptyTensorLieAnywhere) {
  const Array x = Array::Zeros({8}, DType::kF32);
  const Array empty = x.Slice(0, 4, 4);
  EXPECT_FALSE(MayShareMemory(empty.tensor(), x.tensor()));
  EXPECT_FALSE(MayShareMemory(x.tensor(), empty.tensor()));
  const std::int64_t zero[] = {0, 1};  // as NumPy describes them
  for (const auto& shape : {std::array<std::int64_t, 2>{4, 0}, {0, 4}, {0, 0}}) {
    EXPECT_FALSE(MayMeetItself(Array::Wrap(x.data(), shape, DType::kF32, zero).tensor()));
  }
}

TEST(Overlap, HandlesNegativeStrides) {
  const Array x = Array::Zeros({8}, DType::kF32);
  const std::int64_t shape[] = {4}, strides[] = {-1};
  const Array back = Array::Wrap(x.data<float>() + 3, shape, DType::kF32, strides);
  EXPECT_TRUE(MayShareMemory(back.tensor(), x.Slice(0, 0, 1).tensor()));
  EXPECT_FALSE(MayShareMemory(back.tensor(), x.Slice(0, 4, 8).tensor()));
}

}  // namespace
}  // namespace anyop::overlap_test
