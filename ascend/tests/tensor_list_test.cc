// SPDX-License-Identifier: Apache-2.0
// Lists of tensors as kernels read them, and memory that is none.
#include <gtest/gtest.h>

#include "on_core.h"

namespace ascend_tests {
namespace {

using Words = std::vector<std::uint64_t>;

constexpr std::uint64_t Described(std::uint32_t rank, std::uint32_t index) {
  return std::uint64_t{index} << 32 | rank;
}
template <class T>
std::uint64_t AddressOf(const Global<T>& tensor) {
  return reinterpret_cast<std::uint64_t>(tensor.data());
}

// A list of float[2, 3], float[] and float[5], each with values of its own.
struct Three {
  Global<float> a{"x[0]", {0, 1, 2, 3, 4, 5}};
  Global<float> b{"x[1]", {10}};
  Global<float> c{"x[2]", {20, 21, 22, 23, 24}};
  Global<std::uint64_t> list{"x", Words{56, Described(2, 0), 2, 3, Described(0, 1), Described(1, 2),
                                        5, AddressOf(a), AddressOf(b), AddressOf(c)}};
};

TEST(TensorList, HasSizesAddressesAndValues) {
  anyop_ascend_clear();
  Three x;
  OnCores(3, [&] {
    ListTensorDesc list;
    list.Init(x.list.data(), 80, 3);
    ASSERT_EQ(list.GetSize(), 3u);
    EXPECT_EQ(list.GetDataPtr<float>(2), x.c.data());
    std::uint64_t sizes[8] = {};
    TensorDesc<float> desc;
    desc.SetShapeAddr(sizes);
    list.GetDesc(desc, 0);
    ASSERT_EQ(desc.GetDim(), 2u);
    EXPECT_EQ(desc.GetShape(0) * 10 + desc.GetShape(1), 23u);
    EXPECT_EQ(desc.GetIndex(), 0u);
    list.GetDesc(desc, 1);
    EXPECT_EQ(desc.GetDim(), 0u);
    list.GetDesc(desc, 2);
    EXPECT_EQ(desc.GetDim(), 1u);
    EXPECT_EQ(sizes[0], 5u);
    EXPECT_EQ(desc.GetIndex(), 2u);
    EXPECT_EQ(desc.GetDataPtr(), x.c.data());
    EXPECT_EQ(desc.GetDataObj().GetValue(4), 24.0f);
  });
  EXPECT_EQ(Findings().dump(), "[]");
}
TEST(TensorList, OfNoTensorHasNone) {
  anyop_ascend_clear();
  Global<std::uint64_t> list("x", Words{8});
  OnCores(1, [&] { EXPECT_EQ(ListTensorDesc(list.data(), 8, 0).GetSize(), 0u); });
  EXPECT_EQ(Findings().dump(), "[]");
}

// The only finding of a kernel with the three tensors.
template <class F>
std::string SaidOf(const F& kernel) {
  anyop_ascend_clear();
  Three x;
  OnCores(1, [&] { kernel(x); });
  const auto found = Findings();
  EXPECT_EQ(found.size(), 1u) << found.dump(1);
  if (found.empty()) return "";
  EXPECT_EQ(found[0]["file"], __FILE__);
  return std::string(found[0]["kind"]) + ": " + std::string(found[0]["text"]);
}
TEST(TensorList, EndsWhereItIsReadBeyond) {
  EXPECT_EQ(SaidOf([](const Three& x) { ListTensorDesc(x.list.data()).GetDataPtr<float>(3); }),
            "tensor-list: GetDataPtr(3), but the list has 3 tensors");
  EXPECT_EQ(SaidOf([](const Three& x) {
              TensorDesc<float> desc;
              std::uint64_t sizes[8];
              desc.SetShapeAddr(sizes);
              ListTensorDesc(x.list.data()).GetDesc(desc, ~0u);
            }),
            "tensor-list: GetDesc(4294967295), but the list has 3 tensors");
  EXPECT_EQ(SaidOf([](const Three& x) {
              TensorDesc<float> desc;
              std::uint64_t sizes[8];
              desc.SetShapeAddr(sizes);
              ListTensorDesc(x.list.data()).GetDesc(desc, 0);
              desc.GetShape(2);
            }),
            "tensor-list: GetShape(2), but the tensor has 2 dimensions");
}
TEST(TensorList, HasExtentsOfItsTensors) {
  const std::string said = SaidOf([](const Three& x) {
    GlobalTensor<float> a;
    a.SetGlobalBuffer(ListTensorDesc(x.list.data()).GetDataPtr<float>(0));
    a.GetValue(200);
  });
  EXPECT_NE(said.find("reads bytes 800 to 804 of 'x[0]', which has 24"), std::string::npos) << said;
}
TEST(TensorList, SaysWhatItsUserForgot) {
  EXPECT_EQ(SaidOf([](const Three& x) {
              TensorDesc<float> desc;
              ListTensorDesc(x.list.data()).GetDesc(desc, 0);
            }),
            "tensor-list: GetDesc writes the sizes of the tensor, but nothing says where. Try "
            "SetShapeAddr first");
  EXPECT_EQ(SaidOf([](const Three&) { TensorDesc<float>().GetShape(0); }),
            "tensor-list: GetShape(0), but the tensor has 0 dimensions. Try GetDesc first");
  EXPECT_EQ(SaidOf([](const Three&) { ListTensorDesc().GetSize(); }),
            "tensor-list: the list has no data. Try Init first");
  EXPECT_EQ(SaidOf([](const Three& x) { ListTensorDesc(x.list.data(), 80, 2); }),
            "tensor-list: the list is said to have 2 tensors, but has 3");
  EXPECT_EQ(SaidOf([](const Three& x) { ListTensorDesc(x.list.data(), 72, 3); }),
            "tensor-list: the list is said to have 72 bytes, but has 80");
}
TEST(TensorList, IsToldFromOtherMemory) {
  const std::string hint = ". Try an argument such as 'list f16[8, 64], f16[4, 64]'";
  const auto said_of = [&](const Words& words) {
    anyop_ascend_clear();
    Global<std::uint64_t> list("x", words);
    OnCores(1, [&] { ListTensorDesc(list.data()).GetSize(); });
    const auto found = Findings();
    EXPECT_EQ(found.size(), 1u) << found.dump(1);
    return found.empty() ? "" : std::string(found[0]["text"]);
  };
  EXPECT_EQ(
      said_of({0}),
      "'x' is no list of tensors: its first 8 bytes are no offset of addresses, but 0" + hint);
  EXPECT_EQ(said_of({~0ull}),
            "'x' is no list of tensors: its first 8 bytes are no offset of "
            "addresses, but 18446744073709551615" +
                hint);
  EXPECT_EQ(said_of({1ull << 40, Described(0, 0)}),
            "'x' is no list of tensors: its first words say that it has 24 bytes or more, but it "
            "has 16" +
                hint);
  EXPECT_EQ(said_of({24, Described(0, 0), Described(0, 1)}),
            "'x' is no list of tensors: its first words say that it has 32 bytes or more, but it "
            "has 24" +
                hint);
  EXPECT_EQ(
      said_of({24, Described(4, 0), 1, 1, 1, 1}),
      "'x' is no list of tensors: its addresses begin at byte 24, in the sizes of tensor 0" + hint);
  EXPECT_EQ(SaidOf([](const Three&) { ListTensorDesc(nullptr); }),
            "tensor-list: the argument is no list of tensors: its address is null" + hint);
}

}  // namespace
}  // namespace ascend_tests
