// SPDX-License-Identifier: Apache-2.0
#include "signature/facts.h"

#include <gtest/gtest.h>

namespace anyop::facts_test {
namespace {

using Groups = std::vector<std::vector<int>>;

Facts Of(std::string_view text) { return FactsOf(*ParseContract(text)); }

TEST(Facts, OutNeedsAResult) {
  EXPECT_TRUE(Of("f(x: T[n]) -> (y: T[n])").has_out);
  EXPECT_FALSE(Of("f(x: mut f32[n]) -> ()").has_out);
}

TEST(Facts, InPlaceNeedsALoneResultOverTheFirstParameterInEveryForm) {
  EXPECT_TRUE(Of("f(x: T[n]) -> (y: T[n] over x)").has_in_place);
  EXPECT_TRUE(Of("f(x: T[n]) -> (y: T[n] over x)").has_lone_result);
  EXPECT_FALSE(Of("f(x: T[n]) -> (y: T[n])").has_in_place);
  EXPECT_TRUE(Of("f(x: T[n]) -> (y: T[n])").has_lone_result);
  EXPECT_FALSE(Of("f(x: T[n], y: T[n]) -> (z: T[n] over y)").has_in_place);
  EXPECT_FALSE(Of("f(x: T[n]) -> (y: T[n]? over x)").has_in_place);
  EXPECT_FALSE(Of("f(x: T[n], y: mut T[n]) -> (z: T[n] over x)").has_lone_result);
  EXPECT_FALSE(Of("f(x: T[n]) -> (y: T[n] over x, z: T[n])").has_lone_result);
  EXPECT_FALSE(Of("f(x: T[n], w: 'a') -> (y: T[n] over x)\n"
                  "f(x: T[n], w: 'b') -> (y: T[n])")
                   .has_in_place);
}

TEST(Facts, AMaskIsForOneOfSeveralResults) {
  EXPECT_TRUE(Of("f(x: T[n]) -> (y: T[n], z: T[n]?)").takes_mask);
  EXPECT_FALSE(Of("f(x: T[n]) -> (y: T[n], z: T[n])").takes_mask);
  EXPECT_FALSE(Of("f(x: T[n]) -> (y: T[n]?)").takes_mask);
}

TEST(Facts, AGradientIsDeclinedWithoutItsOptionalArgument) {
  const Facts facts = Of("f(dy: T[n], x: T[n], w: T[n]?) -> (dx: T[n]?, dw: T[n]?, w2: T[n]?)");
  EXPECT_EQ(facts.declined_without, (std::vector<int>{-1, 2, -1}));
  EXPECT_EQ(Of("f(x: T[n], w: T[n]?) -> (dw: T[n], dx: T[n]?)").declined_without,
            (std::vector<int>{-1, -1}));
}

TEST(Facts, SomeCallsNeedNoTensor) {
  EXPECT_FALSE(Of("f(n: int) -> (y: f32[n])").needs_tensor);
  EXPECT_FALSE(Of("f(n: int, x: f32[n]?) -> (y: f32[n])").needs_tensor);
  EXPECT_TRUE(Of("f(x: f32[n]*) -> (y: f32[n])").needs_tensor);
}

TEST(Facts, DTypeGroupsAreTensorsThatACastMakesAgree) {
  EXPECT_EQ(Of("f(x: T[n], i: i32[n], w: T[n]?, e: f32[n]) -> (y: T[n])").dtype_groups,
            (Groups{{0, 2}}));
  EXPECT_EQ(Of("f(x: T[n], w: mut T[n]) -> (y: T[n])").dtype_groups, Groups());
  EXPECT_EQ(Of("f(x: T[n], w: T[n]*) -> (y: T[n])").dtype_groups, Groups());
  EXPECT_EQ(Of("f(x: T[n], a: U[n], w: mut T[n], b: U[n]) -> (y: T[n])").dtype_groups,
            (Groups{{1, 3}}));
}

TEST(Facts, ALetterDMakesAGradient) {
  EXPECT_EQ(PrimalOf("dx"), "x");
  EXPECT_EQ(PrimalOf("d"), "");
  EXPECT_EQ(PrimalOf("x"), "");
}

TEST(Facts, WhatStandsBeforeARequiredArgumentIsLeftOutByKeyword) {
  EXPECT_EQ(Of("f(x: f32[n], w: f32[n]?, y: f32[n], b: f32[n]?, k: int = 1) -> ()").by_keyword,
            std::vector<int>{1});
  EXPECT_TRUE(Of("f(x: f32[n], w: f32[n]?, k: int = 1) -> ()").by_keyword.empty());
}

}  // namespace
}  // namespace anyop::facts_test
