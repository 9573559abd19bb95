// SPDX-License-Identifier: Apache-2.0
// What watches the libraries of a sanitized build sees planted defects of the runtime and of
// kernels, also under test programs of a plain build.
#include "runtime/testing/testing.h"

namespace anyop::sanitizers_test {
namespace {

std::string ErrorWith(const char* defect) {
  const Array x = Counting({2, 3}), y = Array::Zeros({2, 3}, DType::kF32);
  return ErrorOf([&] { Call("testing.defect", x, defect).into(y); });
}

TEST(SanitizersDeathTest, SeeDefectsOfKernels) {
  if (!HasSanitizer("asan")) GTEST_SKIP() << "only in builds with the address sanitizer";
  EXPECT_EQ(ErrorWith("none"), "");
  EXPECT_DEATH(ErrorWith("heap"), "heap-buffer-overflow");
  EXPECT_DEATH(ErrorWith("overflow"), "signed integer overflow");
}

TEST(SanitizersDeathTest, SeeDefectsOfTheRuntime) {
  if (!HasSanitizer("asan")) GTEST_SKIP() << "only in builds with the address sanitizer";
  const Array x = Counting({2, 3}), y = Array::Zeros({2, 3}, DType::kF32);
  DLTensor view = x.tensor();
  const std::vector<std::int64_t> shape(view.shape, view.shape + 1);
  view.shape = const_cast<std::int64_t*>(shape.data());  // one size where the runtime reads two
  EXPECT_DEATH(Call("testing.defect", view, "none").into(y), "heap-buffer-overflow");
}

}  // namespace
}  // namespace anyop::sanitizers_test
