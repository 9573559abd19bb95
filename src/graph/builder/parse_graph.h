// SPDX-License-Identifier: Apache-2.0
// Graphs out of text.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "graph/ir/graph.h"

namespace anyop {

// Where the data of states and constants comes from: by name. An Array that is none refuses.
using GraphData = std::function<Array(const std::string& name)>;

// Reads what Print wrote, and checks and infers every call anew. Throws InvalidArgument that points
// into the text: "line 3, column 7: ...", also where a value is not of the type that is written.
Graph ParseGraph(std::string_view text, const GraphData& data = nullptr);

}  // namespace anyop
