// SPDX-License-Identifier: Apache-2.0
// Layouts of workspaces (ops/common/workspace.h): what a layout is over names must be what it is
// over numbers.
#pragma once
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace anyop::optest {

inline constexpr const char* kSizeNames[] = {"a", "b", "c", "d", "e", "g", "h", "i"};
using SizeNumbers = std::array<std::int64_t, std::size(kSizeNames)>;

// Numbers at and beside those at which layouts change; the first trials have a 0 each.
SizeNumbers RandomSizes(int trial);
// The value of an expression over kSizeNames that have these numbers.
std::int64_t ValueOf(std::string_view expression, const SizeNumbers& numbers);

// Text: SizeText. layout: makes a layout of eight sizes, texts or numbers.
template <class Text, class Layout>
void ExpectTheSameBytes(Layout layout) {
  std::array<Text, std::size(kSizeNames)> names = {"a", "b", "c", "d", "e", "g", "h", "i"};
  const auto of_names = layout(names);
  for (int trial = 0; trial < 200; ++trial) {
    const SizeNumbers numbers = RandomSizes(trial);
    std::string shown;
    for (const std::int64_t n : numbers) shown += std::to_string(n) + " ";
    ASSERT_EQ(ValueOf(of_names.bytes().text(), numbers), layout(numbers).bytes())
        << of_names.bytes().text() << " with " << shown;
  }
}

}  // namespace anyop::optest
