// SPDX-License-Identifier: Apache-2.0
#include "runtime/observe/check_mode.h"

#include <limits>
#include <thread>

#include "runtime/observe/watch.h"
#include "runtime/testing/testing.h"

namespace anyop::check_mode_test {
namespace {

std::string Report(const char* code) {
  return std::string(". This is a defect of the operator. Please report it. [") + code + "]";
}

// The first line of the error: the second names the file that repeats the call.
std::string Defect(const Array& x, const char* how, const Array& y, bool deeply = false) {
  const Checking checking(true, deeply);
  int code = 0;
  const std::string error = ErrorOf([&] { Call("testing.defect", x, how).into(y); }, &code);
  EXPECT_EQ(code, error.empty() ? 0 : ANYOP_INTERNAL);
  return error.substr(0, error.find('\n'));
}

TEST(CheckMode, FindsWhatKernelsDoToMemory) {
  const Array x = Counting({2, 3}), y = Array::Zeros({2, 3}, DType::kF32);
  const std::string the = "testing.defect: the kernel cpu_f32 ", out = Report("write-outside");
  EXPECT_EQ(Defect(x, "behind", y),
            the + "wrote outside y, f32[2, 3]: byte 1 after its end has changed" + out);
  EXPECT_EQ(Defect(x, "far", y),
            the + "wrote outside y, f32[2, 3]: byte 399977 after its end has changed" + out);
  EXPECT_EQ(Defect(x, "before", y),
            the + "wrote outside y, f32[2, 3]: byte 1 before its beginning has changed" + out);
  EXPECT_EQ(Defect(x, "unwritten", y),
            the +
                "did not write element 3 of y, f32[2, 3], although every element must be written" +
                Report("unwritten"));
  EXPECT_EQ(
      Defect(x, "workspace", y),
      the + "wrote outside its workspace of 16 bytes: byte 1 after its end has changed" + out);
  EXPECT_EQ(Values(y), std::vector<float>(6)) << "nothing was written";
}

TEST(CheckMode, LeavesAnInputThatAKernelWroteAsItWas) {
  const Array x = Counting({2, 3}), y = Array::Zeros({2, 3}, DType::kF32);
  EXPECT_EQ(Defect(x, "argument", y),
            "testing.defect: the kernel cpu_f32 wrote its input x, f32[2, 3], which the signature "
            "does not mark as `mut`; the caller's tensor is as it was" +
                Report("write-input"));
  EXPECT_EQ(Values(x), Values(Counting({2, 3})));
}

TEST(CheckMode, FindsReadsOutsideOfAnArgument) {
  const Array x = Counting({2, 3}), y = Array::Zeros({2, 3}, DType::kF32);
  const std::string the = "testing.defect: the kernel cpu_f32 read outside x, f32[2, 3]: byte ";
  EXPECT_EQ(Defect(x, "read", y), the + "1 after its end was read" + Report("read-outside"));
  EXPECT_EQ(Defect(x, "read-before", y),
            the + "8000 before its beginning was read" + Report("read-outside"));
  const Array pages = Counting({3000}), result = Array::Zeros({3000}, DType::kF32);
  EXPECT_EQ(
      Defect(pages, "read", result),
      "testing.defect: the kernel cpu_f32 read outside x, f32[3000]: byte 1 after its end was "
      "read" +
          Report("read-outside"));
}

TEST(CheckMode, FindsReadsInAnyThread) {
  const Array x = Counting({2, 3}), y = Array::Zeros({2, 3}, DType::kF32);
  std::string found;
  std::thread([&] { found = Defect(x, "read", y); }).join();
  EXPECT_NE(found.find("read outside x, f32[2, 3]"), found.npos) << found;
}

TEST(CheckMode, LooksForNaNWhenAskedTo) {
  const Array x = Counting({2, 3}), y = Array::Zeros({2, 3}, DType::kF32);
  EXPECT_EQ(Defect(x, "nan", y), "");
  EXPECT_EQ(Defect(x, "nan", y, /*deeply=*/true),
            "testing.defect: the kernel cpu_f32 wrote NaN into element 1 of y, f32[2, 3], although "
            "every float that the call reads is finite" +
                Report("nan"));
  EXPECT_EQ(Defect(x, "none", y, /*deeply=*/true), "");
  x.at<float>(0, 0) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Defect(x, "nan", y, /*deeply=*/true), "");
}

// y = 2*x, whatever s is.
int RunTwice(const anyop_context*, const anyop_value* frame) {
  const DLTensor &x = *frame[0].t, &y = *frame[2].t;
  for (std::int64_t i = 0; i < x.shape[0]; ++i) {
    static_cast<double*>(y.data)[i] = 2 * double(static_cast<const float*>(x.data)[i]);
  }
  return ANYOP_OK;
}

TEST(CheckMode, ComparesWithTheReferenceWhenAskedTo) {
  static const anyop_reference twice{sizeof(anyop_reference), 0, "scale", &RunTwice, ""};
  NewLibrary library;
  library.name = library.file = "references";
  library.references.emplace_back("testing.scale", &twice);
  Register(std::move(library));
  const Array x = Counting({4}), y = Array::Zeros({4}, DType::kF32);
  const auto error = [&](double s, bool deeply) {
    const Checking checking(true, deeply);
    const std::string text = ErrorOf([&] { Call("testing.scale", x, s).into(y); });
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(error(3, /*deeply=*/false), "");
  EXPECT_EQ(error(2, /*deeply=*/true), "");
  EXPECT_EQ(error(2.00001, /*deeply=*/true), "") << "20 units in the last place of the largest";
  EXPECT_EQ(error(3, /*deeply=*/true),
            "testing.scale: the kernel cpu_f32 wrote 3 into element 1 of y, f32[4], where the "
            "reference in double has 2: 4194304 units in the last place of f32" +
                Report("inaccurate"));
}

TEST(CheckMode, FindsWritesBetweenRows) {
  const Array wide = Array::Zeros({2, 8}, DType::kF32), y = wide.Slice(1, 0, 3);
  EXPECT_EQ(
      Defect(Counting({2, 3}), "between", y),
      "testing.defect: the kernel cpu_f32 wrote outside y, f32[2, 3]: a byte between its rows "
      "has changed" +
          Report("write-outside"));
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

TEST(CheckModeDeathTest, ACrashNamesOperatorKernelAndShapes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Array x = Counting({2, 3}), y = Array::Zeros({2, 3}, DType::kF32);
  EXPECT_DEATH(Defect(x, "crash", y),
               "anyop: SIGSEGV in kernel cpu_f32 of testing.defect\\(x: f32\\[2, 3\\], how: "
               "'crash'\\)");
}

TEST(CheckMode, IsOffUnlessAskedFor) {
  EXPECT_FALSE(IsChecking());
  EXPECT_EQ(Find("testing.scale")->entry.load(), &RunPlan);
  {
    const Checking checking;
    EXPECT_EQ(Find("testing.scale")->entry.load(), &RunWatched);
  }
  EXPECT_EQ(Find("testing.scale")->entry.load(), &RunPlan);
}

}  // namespace
}  // namespace anyop::check_mode_test
