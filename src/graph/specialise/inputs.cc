// SPDX-License-Identifier: Apache-2.0
#include "graph/specialise/inputs.h"

#include <algorithm>

#include "anyop/tensor.h"
#include "graph/ir/text.h"
#include "platform/error.h"
#include "runtime/device/device.h"
#include "runtime/plan/make_plan.h"
#include "runtime/registry/operator.h"
#include "signature/expression.h"

namespace anyop {
namespace {

// size = a*symbol + b with one symbol.
bool IsLinear(const Size& size, int* symbol, std::int64_t* a, std::int64_t* b) {
  *b = 0;
  *symbol = -1;
  for (const SizeTerm& t : size.terms()) {
    if (t.symbols.empty()) {
      *b = t.factor;
    } else if (t.symbols.size() == 1 && *symbol < 0) {
      *symbol = t.symbols[0];
      *a = t.factor;
    } else {
      return false;
    }
  }
  return *symbol >= 0;
}

}  // namespace

GraphInputs::GraphInputs(const Graph& graph)
    : graph_(graph),
      in_key_(graph.symbols.size()),
      number_in_key_(graph.inputs.size()),
      is_planned_(graph.values.size()) {
  AddSteps();
  FindKeys();
  FindPlanned();
}

// Sizes that are a symbol bind it first, then those that are linear in one that is not bound yet.
// The rest is compared, behind all that binds, because comparing needs the symbols.
void GraphInputs::AddSteps() {
  std::vector<bool> is_bound(graph_.symbols.size());
  for (const int i : graph_.inputs) {
    if (graph_.value(i).symbol >= 0) is_bound[std::size_t(graph_.value(i).symbol)] = true;
  }
  std::vector<std::pair<int, int>> left;
  for (int k = 0; k < int(graph_.inputs.size()); ++k) {
    const GraphValue& v = graph_.value(graph_.inputs[std::size_t(k)]);
    for (int d = 0; d < int(v.shape.size()); ++d) {
      const int s = v.shape[std::size_t(d)].symbol();
      if (s < 0 || is_bound[std::size_t(s)]) {
        left.emplace_back(k, d);
        continue;
      }
      is_bound[std::size_t(s)] = true;
      steps_.push_back({k, d, s, 1, 0});
    }
  }
  for (const auto& [k, d] : left) {
    const GraphValue& v = graph_.value(graph_.inputs[std::size_t(k)]);
    Step step{k, d, -1, 0, 0};
    if (IsLinear(v.shape[std::size_t(d)], &step.symbol, &step.a, &step.b) &&
        !is_bound[std::size_t(step.symbol)]) {
      is_bound[std::size_t(step.symbol)] = true;
    } else {
      step.symbol = -1;
    }
    steps_.push_back(step);
  }
  std::stable_partition(steps_.begin(), steps_.end(), [](const Step& s) { return s.symbol >= 0; });
  for (std::size_t s = 0; s < is_bound.size(); ++s) {
    if (is_bound[s] || graph_.symbols[s].value != GraphSymbol::kFree) continue;
    Fail(ANYOP_INVALID_ARGUMENT, "graph: no input says what " + graph_.symbols[s].name +
                                     " is. Try an input that has it as a size.");
  }
}

// A symbol or number that decides neither a size nor a kernel stays out of the key: each of its
// values would be planned anew for nothing.
void GraphInputs::FindKeys() {
  const auto add = [&](const Size& size) {
    for (const SizeTerm& t : size.terms()) {
      for (const int s : t.symbols) in_key_[std::size_t(s)] = true;
    }
  };
  for (const GraphValue& v : graph_.values) std::for_each(v.shape.begin(), v.shape.end(), add);
  for (const GraphView& v : graph_.views) {
    add(v.begin);
    add(v.end);
    std::for_each(v.shape.begin(), v.shape.end(), add);
  }
  for (const GraphNode& n : graph_.nodes) {
    for (std::size_t i = 0; i < n.arguments.size(); ++i) {
      const GraphArgument& a = n.arguments[i];
      const bool is_keyed = n.op->contract->key_params >> i & 1;
      if (a.kind == GraphArgument::kSize && is_keyed) add(a.size);
      if (a.kind != GraphArgument::kValue) continue;
      const auto input = std::find(graph_.inputs.begin(), graph_.inputs.end(), a.values[0]);
      if (input == graph_.inputs.end()) continue;
      const bool is_number = graph_.value(*input).kind == GraphValue::kScalar;
      if (is_number && is_keyed) number_in_key_[std::size_t(input - graph_.inputs.begin())] = true;
    }
  }
}

void GraphInputs::FindPlanned() {
  for (const GraphNode& n : graph_.nodes) {
    for (std::size_t i = 0; i < n.arguments.size(); ++i) {
      const GraphArgument& a = n.arguments[i];
      if (!(n.op->planned >> i & 1) || a.kind != GraphArgument::kValue) continue;
      is_planned_[std::size_t(graph_.Root(a.values[0]))] = true;
    }
  }
}

DLDevice GraphInputs::DeviceOf(std::span<const anyop_value> inputs) const {
  const auto name = [&](std::size_t i) { return graph_.value(graph_.inputs[i]).name; };
  int first = -1;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (inputs[k].tag != ANYOP_TENSOR) continue;
    const Device here = inputs[k].t->device;
    if (IsPlanned(int(k))) {
      if (here.is_host()) continue;
      Fail(ANYOP_INVALID_ARGUMENT,
           "graph: " + name(k) + " is on " + here.name() +
               ", but must be on cpu, because a call takes it as planned: the host reads it before "
               "the work begins. Try a copy on the CPU.");
    }
    if (first < 0) first = int(k);
    const Device there = inputs[std::size_t(first)].t->device;
    if (here == there) continue;
    Fail(ANYOP_INVALID_ARGUMENT, "graph: " + name(k) + " is on " + here.name() + ", but " +
                                     name(std::size_t(first)) + " is on " + there.name() +
                                     ". Try a copy on the same device.");
  }
  return first >= 0 ? inputs[std::size_t(first)].t->device : StateDevice();
}

DLDevice GraphInputs::StateDevice() const {
  for (const GraphValue& v : graph_.values) {  // planned states and constants may be the host's
    if (!v.array.is_none() && !v.array.device().is_host()) return v.array.device().dl();
  }
  return kHostDevice;
}

bool GraphInputs::NeedsCopy(const DLTensor& t) {
  return (t.strides && !static_cast<const Tensor&>(t).is_contiguous()) || IsMisaligned(t);
}

void GraphInputs::Refuse(int input, const anyop_value& given, const std::string& why) const {
  const int value = graph_.inputs[std::size_t(input)];
  const bool is_tensor = graph_.value(value).kind != GraphValue::kScalar;
  Fail(ANYOP_INVALID_ARGUMENT,
       "graph: " + graph_.value(value).name + " is " + Show(given) + ", but must be " +
           ShowType(graph_, value) + why + "." +
           (given.tag == ANYOP_TENSOR && is_tensor ? TryCast(*given.t, graph_.value(value).dtype)
                                                   : ""));
}

void GraphInputs::CheckTensor(int input, const anyop_value& given) const {
  const GraphValue& v = graph_.value(graph_.inputs[std::size_t(input)]);
  if (v.kind == GraphValue::kScalar) {
    const bool fits = v.scalar == ParamKind::kInt ? given.tag == ANYOP_INT
                      : v.scalar == ParamKind::kBool
                          ? given.tag == ANYOP_BOOL
                          : given.tag == ANYOP_FLOAT || given.tag == ANYOP_INT;
    if (!fits) Refuse(input, given, "");
    return;
  }
  if (given.tag != ANYOP_TENSOR) Refuse(input, given, "");
  const DLTensor& t = *given.t;
  if (!Device(t.device).is_host() && !FindDeviceKind(t.device.device_type)) {
    Fail(ANYOP_INVALID_ARGUMENT, "graph: " + v.name + " is on " + Device(t.device).name() +
                                     ", but no loaded library has this device. Try a copy on the "
                                     "CPU.");
  }
  const DLDataType want = ToDL(v.dtype);
  const bool is_same =
      t.dtype.code == want.code && t.dtype.bits == want.bits && t.dtype.lanes == want.lanes;
  if (!is_same || t.ndim != int(v.shape.size())) Refuse(input, given, "");
}

void GraphInputs::Bind(std::span<const anyop_value> inputs, std::int64_t* symbols) const {
  if (inputs.size() != graph_.inputs.size()) {
    Fail(ANYOP_INVALID_ARGUMENT, "graph: " + std::to_string(inputs.size()) +
                                     " arguments are given, but there are " +
                                     std::to_string(graph_.inputs.size()) + ".");
  }
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    CheckTensor(int(k), inputs[k]);
    const int symbol = graph_.value(graph_.inputs[k]).symbol;
    if (symbol >= 0) symbols[symbol] = inputs[k].i;
  }
  for (const Step& s : steps_) {
    const anyop_value& given = inputs[std::size_t(s.input)];
    const std::int64_t size = given.t->shape[s.dimension];
    if (s.symbol >= 0) {
      if (size < s.b || (size - s.b) % s.a) Refuse(s.input, given, "");
      symbols[s.symbol] = (size - s.b) / s.a;
      continue;
    }
    const GraphValue& v = graph_.value(graph_.inputs[std::size_t(s.input)]);
    const Size& want = v.shape[std::size_t(s.dimension)];
    const std::int64_t wanted =
        want.is_constant() ? want.constant() : want.At({symbols, graph_.symbols.size()});
    if (size == wanted) continue;
    Refuse(s.input, given,
           want.is_constant() ? ""
                              : ", and " + ShowSize(graph_, want) + " is " +
                                    std::to_string(wanted) + BoundText(inputs, s.input));
  }
}

// " because x is f32[2, 8]": the other tensors.
std::string GraphInputs::BoundText(std::span<const anyop_value> inputs, int input) const {
  std::string text;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (int(k) == input || inputs[k].tag != ANYOP_TENSOR) continue;
    text += (text.empty() ? " because " : ", ") + graph_.value(graph_.inputs[k]).name + " is " +
            Show(inputs[k]);
  }
  return text;
}

}  // namespace anyop
