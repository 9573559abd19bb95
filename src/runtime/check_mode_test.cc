// SPDX-License-Identifier: Apache-2.0
#include "runtime/check_mode.h"

#include "runtime/testing/testing.h"

namespace anyop {
namespace {

constexpr char kReport[] = ". This is a defect of the operator. Please report it.";

std::string Defect(const Array& x, const char* how, const Array& y) {
  const Checking checking;
  int code = 0;
  const std::string error = ErrorOf([&] { Call("testing.defect", x, how).into(y); }, &code);
  EXPECT_EQ(code, error.empty() ? 0 : ANYOP_INTERNAL);
  return error;
}

TEST(CheckMode, FindsWhatKernelsDoToMemory) {
  const Array x = Counting({2, 3}), y = Array::Zeros({2, 3}, DType::kF32);
  const std::string the = "testing.defect: the kernel cpu_f32 ";
  EXPECT_EQ(Defect(x, "behind", y), the + "wrote 0 bytes behind y, f32[2, 3]" + kReport);
  EXPECT_EQ(Defect(x, "before", y), the + "wrote 4 bytes before y, f32[2, 3]" + kReport);
  EXPECT_EQ(Defect(x, "unwritten", y), the + "did not write element 3 of y, f32[2, 3]" + kReport);
  EXPECT_EQ(Defect(x, "workspace", y),
            the + "wrote 0 bytes behind its workspace of 16 bytes" + kReport);
  EXPECT_EQ(Values(y), std::vector<float>(6)) << "nothing was written";
  EXPECT_EQ(Defect(x, "argument", y), the + "changed its argument x" + kReport);
}

TEST(CheckMode, FindsWritesBetweenRows) {
  const Array wide = Array::Zeros({2, 8}, DType::kF32), y = wide.Slice(1, 0, 3);
  EXPECT_EQ(Defect(Counting({2, 3}), "between", y),
            "testing.defect: the kernel cpu_f32 wrote between the rows of y, f32[2, 3]" +
                std::string(kReport));
  EXPECT_EQ(Defect(Counting({2, 3}), "none", y), "");
  EXPECT_EQ(Values(wide), (std::vector<float>{0, 1, 2, 0, 0, 0, 0, 0, 3, 4, 5, 0, 0, 0, 0, 0}));
}

TEST(CheckMode, ChangesNoResult) {
  const Checking checking;
  const Array x = Counting({4}), into = Counting({4});
  EXPECT_EQ(Values(Call("testing.scale", x, 2.0)), (std::vector<float>{0, 2, 4, 6}));
  Call("testing.scale", x, 2.0).into(x);  // over its argument
  EXPECT_EQ(Values(x), (std::vector<float>{0, 2, 4, 6}));
  Call("testing.add_twice", x, x, into).into();  // of other calls
  EXPECT_EQ(Values(into), (std::vector<float>{0, 5, 10, 15}));
  EXPECT_EQ(ErrorOf([&] { Call("testing.scale", x, 1e31).into(into); }),
            "testing.scale: s < 1e30 must hold, but s is 1e+31.");
}

TEST(CheckMode, LooksAtTheDataOfCallsThatWriteSomething) {
  const Array x = Floats({3}, {1, 0.5, 2});
  const char* const text = "testing.whole: x[1] is no whole number.";
  EXPECT_EQ(Values(Call("testing.whole", x)), Values(x)) << "in check mode alone";
  const Checking checking;
  int code = 0;
  const Array y = Array::Zeros({3}, DType::kF32);
  EXPECT_EQ(ErrorOf([&] { Call("testing.whole", x).into(y); }, &code), text);
  EXPECT_EQ(code, ANYOP_INVALID_ARGUMENT);
  EXPECT_EQ(Values(y), std::vector<float>(3)) << "nothing was written";
  EXPECT_EQ(Values(Call("testing.whole", Floats({2}, {1, 2}))), (std::vector<float>{1, 2}));
  EXPECT_EQ(ErrorOf([&] { Call("testing.composed", x).into(y); }),
            "testing.composed: x[1] is no whole number.");
}

TEST(CheckMode, IsOffUnlessAskedFor) {
  EXPECT_FALSE(IsChecking());
  EXPECT_EQ(Find("testing.scale")->entry.load(), &RunPlan);
  {
    const Checking checking;
    EXPECT_EQ(Find("testing.scale")->entry.load(), &RunChecked);
  }
  EXPECT_EQ(Find("testing.scale")->entry.load(), &RunPlan);
}

}  // namespace
}  // namespace anyop
