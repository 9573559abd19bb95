// SPDX-License-Identifier: Apache-2.0
#include "graph/replay/boundary.h"

#include <algorithm>
#include <tuple>

#include "anyop/stream.h"
#include "graph/ir/alias.h"
#include "graph/specialise/inputs.h"
#include "platform/error.h"
#include "platform/of_thread.h"
#include "signature/expression.h"

namespace anyop {
namespace {

[[noreturn]] void Refuse(const std::string& text) {
  Fail(ANYOP_INVALID_ARGUMENT, "graph: " + text);
}

}  // namespace

Boundary::Boundary(const Graph& graph) : graph_(graph) {
  const std::vector<bool> written = WrittenRoots(graph);
  for (const int i : graph.inputs) is_written_.push_back(written[std::size_t(i)]);
  for (int v = 0; v < int(graph.values.size()); ++v) {
    const GraphValue& value = graph.value(v);
    if (value.array.is_none()) continue;
    const MemoryRange m(value.array.tensor());
    if (m.is_empty()) continue;
    states_.push_back({m, v});
    if (written[std::size_t(v)]) written_states_.push_back({m, v});
  }
  states_ = Merged(std::move(states_));
  written_states_ = Merged(std::move(written_states_));
}

std::vector<Boundary::State> Boundary::Merged(std::vector<State> states) {
  std::sort(states.begin(), states.end());
  std::vector<State> merged;
  for (const State& s : states) {
    const bool is_there = !merged.empty() && s.memory.place == merged.back().memory.place;
    if (is_there && s.memory.extent.begin < merged.back().memory.extent.end) {
      std::uintptr_t& end = merged.back().memory.extent.end;
      end = std::max(end, s.memory.extent.end);
    } else {
      merged.push_back(s);
    }
  }
  return merged;
}

void Boundary::CheckApart(const MemoryRange& m, const std::vector<State>& from,
                          const Name& what) const {
  const auto is_before = [](const MemoryRange& at, const State& s) {
    return std::pair(at.place, at.extent.begin) < std::pair(s.memory.place, s.memory.extent.end);
  };
  const auto after = std::upper_bound(from.begin(), from.end(), m, is_before);
  if (m.is_empty() || after == from.end() || after->memory.place != m.place ||
      !Meet(after->memory.extent, m.extent)) {
    return;
  }
  Refuse(NameOf(what) + " overlaps the state " + graph_.value(after->value).name +
         " in memory, but must be apart, because one of them is written. Try a tensor of its own.");
}

void Boundary::RefusePair(const Given& a, const Given& b) const {
  const bool is_a_first = a.is_written && (a.name.is_output || !b.is_written);
  Refuse(NameOf((is_a_first ? a : b).name) + " overlaps " + NameOf((is_a_first ? b : a).name) +
         " in memory, but must be apart, because it is written. Try a tensor of its own.");
}

std::string Boundary::NameOf(const Name& name) const {
  const std::size_t k = std::size_t(name.index);
  return name.is_output ? "output " + graph_.outputs[k].name : graph_.value(graph_.inputs[k]).name;
}

void Boundary::CheckOutput(const Specialisation& s, int k, const DLTensor& t) const {
  const ResultShape& want = s.outputs[std::size_t(k)];
  const DLDataType dtype = ToDL(want.dtype);
  bool fits = t.dtype.code == dtype.code && t.dtype.bits == dtype.bits && t.ndim == want.rank &&
              Device(t.device) == Device(s.device);
  for (int d = 0; fits && d < want.rank; ++d) fits = t.shape[d] == want.shape[d];
  if (!fits) {
    const Layout l = ContiguousLayout(want.dtype, {want.shape, std::size_t(want.rank)});
    Refuse(NameOf({true, k}) + " is " + Show(t) + ", but must be " + Show(TensorOf(l, nullptr)) +
           (s.device_kind ? " on " + Device(s.device).name() + "." : " in CPU memory.") +
           (FromDL(t.dtype) == int(want.dtype)
                ? ""
                : " Try a tensor of " + std::string(anyop::Name(want.dtype)) + "."));
  }
  if (!GraphInputs::NeedsCopy(t)) return;
  Refuse(NameOf({true, k}) + " is " + Show(t) +
         " with gaps or at a misaligned address, but must be contiguous. Try a new tensor.");
}

void Boundary::CheckInput(int k, const DLTensor& t, const MemoryRange& m) const {
  const bool is_written = is_written_[std::size_t(k)];
  CheckApart(m, is_written ? states_ : written_states_, {false, k});
  if (is_written && GraphInputs::NeedsCopy(t)) {
    Refuse(NameOf({false, k}) + " is " + Show(t) +
           " with gaps or at a misaligned address, but is written. Try a contiguous tensor.");
  }
}

// One sweep, not all pairs: graphs of training have hundreds of inputs and outputs. In the order of
// memory, each tensor must begin behind the end of all written ones before it, and a written one
// behind the end of all.
void Boundary::CheckGiven(std::span<Given> given) const {
  // Names break ties, so that the message for equal addresses names the same two each time.
  const auto key = [](const Given& g) {
    return std::tuple(g.memory.place, g.memory.extent.begin, g.name.is_output, -g.name.index);
  };
  std::sort(given.begin(), given.end(),
            [&](const Given& a, const Given& b) { return key(a) < key(b); });
  const Given *furthest = nullptr, *furthest_written = nullptr;
  for (const Given& g : given) {
    if (g.memory.is_empty()) continue;
    const Extent& here = g.memory.extent;
    const auto is_elsewhere = [&](const Given* f) {
      return f && f->memory.place != g.memory.place;
    };
    if (is_elsewhere(furthest)) furthest = nullptr;
    if (is_elsewhere(furthest_written)) furthest_written = nullptr;
    const Given* before = g.is_written ? furthest : furthest_written;
    if (before && here.begin < before->memory.extent.end) RefusePair(g, *before);
    const auto reaches = [&](const Given* f) { return !f || here.end > f->memory.extent.end; };
    if (reaches(furthest)) furthest = &g;
    if (g.is_written && reaches(furthest_written)) furthest_written = &g;
  }
}

void Boundary::Check(const Specialisation& s, std::span<const anyop_value> inputs,
                     std::span<const DLTensor* const> outputs) const {
  if (inputs.size() != graph_.inputs.size() || outputs.size() != graph_.outputs.size()) {
    Refuse(std::to_string(inputs.size()) + " arguments and " + std::to_string(outputs.size()) +
           " outputs are given, but there are " + std::to_string(graph_.inputs.size()) + " and " +
           std::to_string(graph_.outputs.size()) + ".");
  }
  std::vector<Given>& given = OfThread<std::vector<Given>>::Get();
  given.clear();
  for (int k = 0; k < int(inputs.size()); ++k) {
    if (inputs[std::size_t(k)].tag != ANYOP_TENSOR) continue;
    const DLTensor& t = *inputs[std::size_t(k)].t;
    const MemoryRange m(t);
    CheckInput(k, t, m);
    given.push_back({m, {false, k}, is_written_[std::size_t(k)]});
  }
  for (int k = 0; k < int(outputs.size()); ++k) {
    const DLTensor& t = *outputs[std::size_t(k)];
    CheckOutput(s, k, t);
    const MemoryRange m(t);
    CheckApart(m, states_, {true, k});
    given.push_back({m, {true, k}, true});
  }
  CheckGiven(given);
}

}  // namespace anyop
