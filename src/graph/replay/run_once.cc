// SPDX-License-Identifier: Apache-2.0
#include "graph/replay/run_once.h"

#include "graph/replay/instance.h"
#include "graph/specialise/inputs.h"
#include "graph/specialise/specialisation.h"

namespace anyop {

std::vector<Array> RunOnce(Graph graph) {
  std::vector<std::int64_t> symbols(graph.symbols.size());
  GraphInputs(graph).Bind({}, symbols.data());
  const Specialisation s(std::make_shared<const Graph>(std::move(graph)), symbols, {});
  std::vector<Array> outputs;
  for (const ResultShape& r : s.outputs) {
    outputs.push_back(Array::Empty(Array::Shape(r.shape, std::size_t(r.rank)), r.dtype));
  }
  std::vector<const DLTensor*> tensors;
  for (const Array& a : outputs) tensors.push_back(&a.tensor());
  GraphArena arena;
  arena.Reserve(s.memory.peak_bytes);
  Instance instance(s);
  instance.Bind(arena.data(), symbols, {}, tensors);
  instance.CheckMemory();
  instance.Run();
  return outputs;
}

}  // namespace anyop
