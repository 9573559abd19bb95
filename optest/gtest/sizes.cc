// SPDX-License-Identifier: Apache-2.0
#include "optest/gtest/sizes.h"

#include <random>

#include "signature/check.h"
#include "signature/expression.h"
#include "signature/owned_call.h"

namespace anyop::optest {

SizeNumbers RandomSizes(int trial) {
  constexpr std::int64_t kSizes[] = {1,   2,   3,   4,   5,   15,  16,   17,   31,   32,   33,  63,
                                     64,  65,  127, 128, 129, 255, 256,  257,  511,  512,  513, 576,
                                     600, 767, 768, 769, 960, 999, 1023, 1024, 1025, 2049, 4097};
  std::mt19937 random{unsigned(trial)};
  SizeNumbers numbers;
  for (std::int64_t& n : numbers) n = kSizes[random() % std::size(kSizes)];
  if (trial < int(numbers.size())) numbers[std::size_t(trial)] = 0;
  return numbers;
}

std::int64_t ValueOf(std::string_view expression, const SizeNumbers& numbers) {
  const auto contract = ParseContract(
      "f(x: f32[n], a: int, b: int, c: int, d: int, e: int, g: int, h: int, i: int) -> (y: "
      "f32[n])");
  std::string call = "x = f32[1]";
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    call += std::string(", ") + kSizeNames[k] + " = " + std::to_string(numbers[k]);
  }
  OwnedCall owned = ParseCall(*contract, call);
  Bindings bindings;
  std::string error;
  const int form = Check(*contract, owned.frame(), &bindings, &error);
  EXPECT_EQ(error, "");
  const Expression e = CompileExpression(*contract, expression);
  const Number value =
      Evaluate(*contract, form, e.node[std::size_t(form)], bindings, owned.frame());
  EXPECT_TRUE(value.known) << expression;
  return value.i;
}

}  // namespace anyop::optest
