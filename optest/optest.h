// SPDX-License-Identifier: Apache-2.0
// What the tests of operators are written with. From the signature alone come sizes, dtypes,
// absent arguments, words, gaps, transposed and packed views, misaligned and shared memory, and
// wrong calls; a test states the tolerance and what no signature can say:
//
//   #include "optest/optest.h"
//
//   namespace anyop::optest {
//   namespace {
//
//   const OpTest kRmsNorm{
//       .op = "rms_norm",
//       .tolerance = Relative(6, 2, "d"),  // (6 + 2*sqrt(d)) * u * |exact| + 0.51 ulp
//       .row_invariant = true,
//       .sizes = {"rows = 16, d = 576", "rows = 1, d = 4096"},
//   };
//   TEST(RmsNorm, MatchesItsReference) { CheckAll(kRmsNorm); }
//
//   TEST(RmsNorm, GivesZerosForARowOfZeros) {             // a call by hand
//     Call call("rms_norm");
//     call.Set("x", Array(DType::kF32, {2, 3}, {0}));
//     EXPECT_EQ(call.Run()["y"], Array(DType::kF32, {2, 3}, {0}));
//   }
//
//   TEST(RmsNorm, RefusesANegativeEps) {
//     Call call("rms_norm");
//     call.Set("x", Array(DType::kF32, {1, 3}, {1})).Set("eps", -1.0);
//     EXPECT_EQ(call.Refusal(), "rms_norm: eps >= 0 must hold, but eps is -1.");
//   }
//
//   }  // namespace
//   }  // namespace anyop::optest
//
// optest's main() takes GoogleTest's flags, and: --exhaustive (many more calls, and large ones),
// --seed=N (other calls), --call=N (one call alone; a failure prints its N), --kernel=NAME (only
// kernels of that name or prefix). OPTEST_LARGE=some runs an eighth of the large calls, and
// at least one of each form; OPTEST_LARGE=none leaves them out.
#pragma once
#include <gtest/gtest.h>

#include "optest/checks.h"
#include "runtime/observe/check_mode.h"  // what .check_data refuses is tested in check mode
