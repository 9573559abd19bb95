// SPDX-License-Identifier: Apache-2.0
// How a value lies in the memory of its root once every size is known.
#pragma once
#include <cstdint>
#include <span>

#include "graph/ir/graph.h"
#include "runtime/memory/layout.h"

namespace anyop {

// `base` seen through a view. Throws InvalidArgument where that does not fit the sizes.
Layout Viewed(const Layout& base, const GraphView& view, std::span<const std::int64_t> symbols);

}  // namespace anyop
