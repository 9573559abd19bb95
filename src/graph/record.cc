// SPDX-License-Identifier: Apache-2.0
#include "graph/record.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include "anyop/error.h"
#include "anyop/scope.h"
#include "graph/saved/files.h"
#include "graph/saved/safetensors.h"
#include "graph/saved/save.h"
#include "platform/env.h"
#include "platform/json.h"
#include "platform/log.h"
#include "platform/threads.h"
#include "runtime/memory/copy.h"
#include "runtime/observe/record.h"
#include "runtime/plan/key.h"
#include "runtime/plan/plan.h"
#include "signature/expression.h"

namespace anyop {
namespace {

std::int64_t BytesOf(const Graph& graph, std::span<const anyop_value> inputs) {
  std::int64_t bytes = 0;
  for (const GraphValue& v : graph.values) {
    if (!v.array.is_none()) bytes += v.array.bytes();
  }
  for (const anyop_value& v : inputs) {
    if (v.tag == ANYOP_TENSOR) bytes += PackedBytes(*v.t);
  }
  return bytes;
}

// Contiguous, whatever its strides are.
Array Copied(const DLTensor& t) {
  Array copy = Array::Empty(Array::Shape(t.shape, std::size_t(t.ndim)),
                            static_cast<const Tensor&>(t).type());
  CopyToPacked(t, copy.data());
  return copy;
}

std::string CallText(const std::string& graph_name, const Specialisation& s,
                     std::span<const anyop_value> inputs) {
  const Graph& graph = *s.graph;
  JsonWriter json;
  json.Begin('{')
      .Field("format", "anyop-graph-capsule 1")
      .Field("graph", graph_name)
      .Key("strides")
      .Begin('{');
  const auto name = [&](std::size_t k) { return graph.value(graph.inputs[k]).name; };
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (inputs[k].tag != ANYOP_TENSOR || ClassOf(*inputs[k].t) == kContiguous) continue;
    json.Key(name(k)).Begin('[');
    for (int d = 0; d < inputs[k].t->ndim; ++d) json.Number(inputs[k].t->strides[d]);
    json.End(']');
  }
  json.End('}').Key("numbers").Begin('{');
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const anyop_value& v = inputs[k];
    if (v.tag == ANYOP_TENSOR) continue;
    json.Field(name(k), v.tag == ANYOP_FLOAT ? ExactFloat(v.f) : std::to_string(v.i));
  }
  json.End('}').Field("threads", std::to_string(NumThreads()));
  json.Field("isa", Environment("ANYOP_ISA")).Field("policy", ProcessPolicy());
  const bool is_invariant = !s.calls.empty() && s.calls[0].plan->flags & ANYOP_FLAG_BATCH_INVARIANT;
  json.Field("batch_invariant", is_invariant ? "1" : "0");
  return json.End('}').text();
}

}  // namespace

void RecordGraph(const std::string& name, Specialisation& s, std::span<const anyop_value> inputs) {
  if (s.records.fetch_add(1) >= RecordsOfEach()) return;
  const std::string path = NewRecord(name, BytesOf(*s.graph, inputs));
  if (path.empty()) return;
  // The folder gets its name when it is whole: `anyop replay` never finds a half of one.
  const std::string made = path + ".part";
  try {
    std::filesystem::create_directories(made);
    const GraphToSave saved{name, s.graph.get()};
    WriteGraphs(made + "/graph", std::span(&saved, 1));
    std::vector<NamedArray> tensors;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (inputs[k].tag != ANYOP_TENSOR) continue;
      tensors.push_back({s.graph->value(s.graph->inputs[k]).name, Copied(*inputs[k].t)});
    }
    WriteTensors(made + "/inputs.safetensors", std::move(tensors));
    WriteText(made + "/call.json", CallText(name, s, inputs));
    std::filesystem::rename(made, path + ".graph");
  } catch (const Error& error) {
    std::error_code ignored;
    std::filesystem::remove_all(made, ignored);
    // The system refuses to write, as it would refuse later records. Other errors are of this
    // graph.
    if (error.code == ANYOP_NOT_AVAILABLE) return StopRecording(error.what());
    Log(2, ("anyop run: " + name + " is recorded by its calls alone: " + error.what()).c_str());
  } catch (const std::filesystem::filesystem_error& error) {
    StopRecording(path + ".graph cannot be written: " + error.code().message());
  }
}

}  // namespace anyop
