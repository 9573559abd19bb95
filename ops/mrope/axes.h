// SPDX-License-Identifier: Apache-2.0
// Which axis of the positions a pair belongs to.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

// blocks: sections[0] pairs of axis 0, then sections[1] of axis 1, ...
// interleaved: pair j is of axis m = j % a while j < a * sections[m], m >= 1; else of axis 0.
void FillAxes(std::span<const std::int64_t> sections, std::string_view order, std::int64_t pairs,
              std::int32_t* axis_of) {
  const auto axes = std::int64_t(sections.size());
  if (order == "interleaved") {
    for (std::int64_t j = 0; j < pairs; ++j) {
      const std::int64_t m = j % axes;
      axis_of[j] = std::int32_t(j / axes < sections[std::size_t(m)] ? m : 0);
    }
    return;
  }
  std::int64_t j = 0;
  for (std::int64_t m = 0; m < axes; ++m) {
    for (std::int64_t n = sections[std::size_t(m)]; n > 0; --n) axis_of[j++] = std::int32_t(m);
  }
}

}  // namespace
}  // namespace anyop::ops
