// SPDX-License-Identifier: Apache-2.0
// The difference of two texts, line by line.
#pragma once
#include <string>
#include <string_view>

namespace anyop {

// A unified diff without file names: "@@ -3,4 +3,5 @@", then lines after " ", "-" or "+" with 3
// lines around each change. "" if the texts are equal. Cost: the changed parts' lines multiplied.
std::string UnifiedDiff(std::string_view before, std::string_view after);

}  // namespace anyop
