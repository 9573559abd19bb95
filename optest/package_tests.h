// SPDX-License-Identifier: Apache-2.0
// The generated tests of a library's operators, without a line of C++ by their author.
#pragma once
#include <string>
#include <vector>

#include "optest/checks.h"

namespace anyop::optest {

// What a package's author states of one operator, where the defaults do not do. As text, because it
// comes from a configuration file:
//   op=scale            begins the facts of an operator
//   tolerance=T         exact | elementwise | elementwise(f32 ulps) | sum(k) | relative(a, b, k),
//                       and sums of them with +; see optest/tolerance.h
//   sizes=rows = 16, d = 576           one more call; may be repeated
//   special=x           also with NaN, Inf, -0 and subnormals; may be repeated
//   range=x, -1, 1      values of a parameter
//   values=eps, 0.1, 1  the values that a number takes in turn
//   row_invariant=1     a row alone has the bits that it has in a batch
//   row_variable=t      a variable that counts rows
//   unsupported=T == f16
// Throws std::invalid_argument.
struct PackageTests {
  std::string library, references;  // files
  std::string facts;                // lines as above
};

// A test of an operator.
struct PackageTest {
  std::string name;  // "<operator>.<Check>"
  const OpTest* test;
  void (*check)(const OpTest&);
};

// The tests of every operator that the file defines and that has a reference
// or a composition. Without a stated tolerance: 4 ulp of f32 and one rounding to narrower floats,
// plus (4 + 2 sqrt(K)) u times the formula with absolute values, K being the largest dimension.
// With the thread sanitizer in the process: one test of each operator, for races alone.
std::vector<PackageTest> MakePackageTests(const PackageTests& tests);

}  // namespace anyop::optest
