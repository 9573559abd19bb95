// SPDX-License-Identifier: Apache-2.0
// What the tests of graphs share.
#pragma once
#include <memory>
#include <vector>

#include "graph/builder/builder.h"
#include "graph/executable.h"
#include "runtime/testing/testing.h"

namespace anyop {

// Replays once into new arrays.
inline std::vector<Array> Replay(Executable& e, const std::vector<Argument>& arguments) {
  std::vector<anyop_value> inputs;
  for (const Argument& a : arguments) inputs.push_back(a.value());
  const std::shared_ptr<Specialisation> s = e.Prepare(inputs);
  std::vector<Array> outputs;
  for (const ResultShape& r : OutputsOf(*s)) {
    outputs.push_back(Array::Empty(Array::Shape(r.shape, std::size_t(r.rank)), r.dtype));
  }
  std::vector<const DLTensor*> tensors;
  for (const Array& a : outputs) tensors.push_back(&a.tensor());
  e.Replay(*s, inputs, tensors);
  return outputs;
}

}  // namespace anyop
