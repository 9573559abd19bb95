// SPDX-License-Identifier: Apache-2.0
// Makes arguments of nodes.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/ir/graph.h"

namespace anyop {

GraphArgument ValueArgument(int value);
GraphArgument ValuesArgument(std::vector<int> values,
                             GraphArgument::Kind kind = GraphArgument::kValues);
GraphArgument BoolArgument(bool b);
GraphArgument IntArgument(std::int64_t i);
GraphArgument FloatArgument(double f);
GraphArgument WordArgument(std::string_view word);
GraphArgument DTypeArgument(DType dtype);
GraphArgument IntsArgument(std::vector<std::int64_t> ints);
GraphArgument FloatsArgument(std::vector<double> floats);
// The number, word, dtype or list of a frame; none for other values.
GraphArgument LiteralArgument(const anyop_value& value);
GraphArgument SizeArgument(Size size);

}  // namespace anyop
