// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>

namespace anyop_ascend {

// Calls run(n) for begin <= n < end, on this thread and a few others, until one call says false.
bool Share(std::uint32_t begin, std::uint32_t end, const std::function<bool(std::uint32_t)>& run);

}  // namespace anyop_ascend
