// SPDX-License-Identifier: Apache-2.0
// The plans and layouts of a specialisation.
#include <algorithm>
#include <set>
#include <tuple>

#include "graph/ir/alias.h"
#include "graph/ir/text.h"
#include "graph/specialise/check_places.h"
#include "graph/specialise/inputs.h"
#include "graph/specialise/place_memory.h"
#include "graph/specialise/specialisation.h"
#include "platform/error.h"
#include "runtime/device/device.h"
#include "runtime/memory/overlap.h"
#include "runtime/observe/check_mode.h"
#include "runtime/plan/thread_state.h"

namespace anyop {
namespace {

class Specialiser {
 public:
  Specialiser(Specialisation* s, std::span<const anyop_value> inputs, ConstantsOnDevices* constants)
      : s_(*s), graph_(*s->graph), inputs_(inputs), facts_(*s->graph), constants_(constants) {
    s_.device = facts_.DeviceOf(inputs);
    if (!Device(s_.device).is_host()) {
      s_.device_kind = &DeviceKindOf(s_.device);
      s_.device_kind->CheckNumber(s_.device.device_id);
    }
    const std::size_t n = graph_.values.size();
    s_.layouts.resize(n);
    s_.tensors.resize(n);
    s_.arrays.resize(n);
    s_.tensor_at.resize(n, nullptr);
    s_.scalars.resize(n);
    s_.calls.reserve(graph_.nodes.size());
    derived_.resize(n);
    for (std::size_t k = 0; k < graph_.symbols.size(); ++k) {
      const GraphSymbol& symbol = graph_.symbols[k];
      if (symbol.value >= 0) derived_[std::size_t(symbol.value)].push_back(int(k));
    }
  }

  void Run() {
    for (std::size_t k = 0; k < inputs_.size(); ++k) AddInput(int(k));
    for (int i = 0; i < int(graph_.nodes.size()); ++i) {
      try {
        PlanNode(i);
      } catch (const Error& e) {
        Fail(e.code, InNode(graph_, i, e.what()));
      }
    }
    for (const GraphOutput& o : graph_.outputs) AddOutput(o.value);
  }

 private:
  void SetLayout(int value, const Layout& layout) {
    Layout& l = s_.layouts[std::size_t(value)];
    l = layout;
    s_.tensors[std::size_t(value)] = TensorOf(l, nullptr);
    s_.tensors[std::size_t(value)].device = s_.device;
    s_.tensor_at[std::size_t(value)] = &s_.tensors[std::size_t(value)];
    for (const int k : derived_[std::size_t(value)]) {
      s_.symbols[std::size_t(k)] = l.shape[graph_.symbols[std::size_t(k)].dimension];
    }
  }

  void AddInput(int k) {
    const int value = graph_.inputs[std::size_t(k)];
    const GraphValue& v = graph_.value(value);
    const anyop_value& given = inputs_[std::size_t(k)];
    if (v.kind == GraphValue::kScalar) {
      s_.scalars[std::size_t(value)] = given;
      return;
    }
    SetLayout(value, ContiguousLayout(v.dtype, {given.t->shape, std::size_t(given.t->ndim)}));
    const bool is_copied = GraphInputs::NeedsCopy(*given.t);
    if (s_.device_kind && facts_.IsPlanned(k)) {
      s_.tensors[std::size_t(value)].device = Device().dl();
      if (!is_copied) return;
      Fail(ANYOP_UNSUPPORTED, "graph: " + v.name + " is " + Show(given) +
                                  " with gaps or at a misaligned address, but must be contiguous, "
                                  "because it is planned. Try a contiguous tensor.");
    }
    if (is_copied) s_.copies_in.push_back({value, k});
  }

  void Ensure(int value) {
    const GraphValue& v = graph_.value(value);
    if (s_.tensor_at[std::size_t(value)] || v.kind == GraphValue::kScalar) return;
    if (v.kind == GraphValue::kView) {
      Ensure(v.base);
      SetLayout(value, ViewedAt(v));
      s_.tensors[std::size_t(value)].device = s_.tensors[std::size_t(v.base)].device;
    } else {
      const Array& array = s_.arrays[std::size_t(value)] = Placed(value);
      SetLayout(value, LayoutOf(array.tensor()));
      s_.tensors[std::size_t(value)].device = array.device().dl();  // operators compare them
    }
  }

  // A constant is the graph's own and never changes, so that a copy of it lies where the graph
  // runs. One that is planned stays on the host.
  Array Placed(int value) const {
    const GraphValue& v = graph_.value(value);
    const bool is_elsewhere = s_.device_kind && v.kind == GraphValue::kConstant &&
                              v.array.device().is_host() && !facts_.IsPlannedValue(value);
    if (!is_elsewhere) return v.array;
    return constants_ ? constants_->On(s_.device, v.array) : v.array.On(s_.device);
  }

  Layout ViewedAt(const GraphValue& v) const {
    try {
      return Viewed(s_.layouts[std::size_t(v.base)], graph_.views[std::size_t(v.view)], s_.symbols);
    } catch (const Error& e) {
      Fail(e.code, "graph: " + std::string(e.what()) + "\n  in " + v.name + " = " +
                       ShowView(graph_, v) + (v.place.empty() ? "" : ", at " + v.place));
    }
  }

  void PlanNode(int number) {
    const GraphNode& node = graph_.nodes[std::size_t(number)];
    Operator& op = *node.op;
    ForArguments(node, [&](int v) { Ensure(v); });
    for (int r = 0; r < op.n_results; ++r) {
      if (IsInto(node, r)) Ensure(node.results[std::size_t(r)]);
    }
    anyop_value frame[kMaxParams + kMaxResults];
    lists_.resize(ListElements(node) + 1);
    FillFrame({graph_, s_.symbols, s_.tensor_at, s_.scalars}, node, frame, lists_.data());
    PlannedCall call;
    call.node = number;
    std::uint64_t wanted = 0;
    for (int r = 0; r < op.n_results; ++r) {
      wanted |= std::uint64_t(node.results[std::size_t(r)] >= 0) << r;
    }
    const HeldPlan made = GetPlanOn(s_.device, op, frame, wanted);
    call.plan = made.get();
    Acquire(call.plan);
    s_.calls.push_back(call);  // ReleasePlans gives the reference back, also after an error below
    PlannedCall& planned = s_.calls.back();
    std::string error;
    if (planned.plan->n_scalar_checks &&
        !CheckScalars(*op.contract, planned.plan->form, frame, &error)) {
      Fail(ANYOP_INVALID_ARGUMENT, op.Message(error));
    }
    for (int r = 0; r < op.n_results; ++r) {
      const int value = node.results[std::size_t(r)];
      if (value < 0 || IsInto(node, r)) continue;
      const ResultShape& shape = planned.plan->results[r];
      SetLayout(value, ContiguousLayout(shape.dtype, {shape.shape, std::size_t(shape.rank)}));
    }
    AddNumbers(node, &planned);
    ChooseMode(node, &planned);
    planned.frame = s_.frame_values;
    planned.list = s_.list_elements;
    s_.frame_values += std::size_t(op.n_params + op.n_results);
    s_.list_elements += ListElements(node);
    s_.estimated_ns += planned.plan->estimated_ns;
  }

  // Notes the places of the frame that every replay writes: all numbers of the call, and sizes that
  // are not in the key, so that one specialisation serves several values of them.
  void AddNumbers(const GraphNode& node, PlannedCall* call) {
    const Contract& contract = *node.op->contract;
    for (std::size_t i = 0; i < node.arguments.size(); ++i) {
      const GraphArgument& a = node.arguments[i];
      NumberPlace place{s_.frame_values + i, -1, nullptr,
                        contract.forms[0].params[i].kind == ParamKind::kFloat};
      if (a.kind == GraphArgument::kValue &&
          graph_.value(a.values[0]).kind == GraphValue::kScalar) {
        place.scalar = a.values[0];
      } else if (a.kind == GraphArgument::kSize && !(contract.key_params >> i & 1)) {
        place.size = &a.size;
      } else {
        continue;
      }
      s_.numbers.push_back(place);
      call->has_numbers = true;
    }
  }

  void ChooseMode(const GraphNode& node, PlannedCall* call) {
    const Plan& plan = *call->plan;
    call->has_numbers &= plan.n_scalar_checks > 0;
    // Compositions, copies of arguments, calls of no elements and work for a device are what only
    // a general call does; it also copies misaligned state.
    bool is_general = plan.kernel < 0 || plan.copied || plan.is_empty || plan.device_kind;
    ForArguments(node, [&](int v) { is_general |= IsMisaligned(v); });
    if (is_general) {
      call->mode = PlannedCall::kGeneral;
      return;
    }
    AddIndexChecks(node, call);
    const bool is_checked =
        !call->index_checks.empty() || call->has_numbers || node.op->data->check;
    call->mode = is_checked ? PlannedCall::kChecked : PlannedCall::kDirect;
  }
  bool IsMisaligned(int value) const {
    const GraphValue& root = graph_.value(graph_.Root(value));
    const Array& array = s_.arrays[std::size_t(graph_.Root(value))];
    return !array.is_none() &&
           reinterpret_cast<std::uintptr_t>(array.data()) % std::uintptr_t(Bytes(root.dtype));
  }

  // A check of an index tensor holds until a node writes its memory, by whatever name.
  void AddIndexChecks(const GraphNode& node, PlannedCall* call) {
    const auto forget = [&] {
      for (const int v : WrittenValues(node)) {
        const int written = class_of(v);
        std::erase_if(checked_, [&](const auto& c) { return class_of(std::get<0>(c)) == written; });
      }
    };
    for (const IndexCheck& c : call->plan->index_checks) {
      const GraphArgument& a = node.arguments[c.param];
      if (a.kind == GraphArgument::kValue &&
          !checked_.insert({a.values[0], c.limit, c.is_offsets}).second) {
        continue;
      }
      call->index_checks.push_back(c);
    }
    if (!checked_.empty()) forget();
  }
  int class_of(int value) {
    if (classes_.empty()) classes_ = AliasClasses(graph_);
    return classes_[std::size_t(value)];
  }

  void AddOutput(int value) {
    Ensure(value);
    const Layout& l = s_.layouts[std::size_t(value)];
    ResultShape shape{l.dtype, l.rank, {}, l.bytes()};
    std::copy_n(l.shape, l.rank, shape.shape);
    s_.outputs.push_back(shape);
  }

  Specialisation& s_;
  const Graph& graph_;
  std::span<const anyop_value> inputs_;
  const GraphInputs facts_;
  ConstantsOnDevices* const constants_;
  std::vector<std::vector<int>> derived_;  // by value: symbols that are its sizes
  std::vector<const DLTensor*> lists_;
  std::set<std::tuple<int, std::int64_t, bool>> checked_;
  std::vector<int> classes_;
};

void CheckMemoryOf(const Specialisation& s) {
  std::string defect = CheckMemoryPlan(s.buffers, s.memory);
  if (defect.empty()) defect = CheckPlaces(s);
  if (defect.empty()) return;
  Fail(ANYOP_INTERNAL, "graph: in the memory that was planned, " + defect +
                           ". This is a defect of anyop. Please report it.");
}

}  // namespace

std::string InNode(const Graph& graph, int node, const std::string& text) {
  const GraphNode& n = graph.nodes[std::size_t(node)];
  return text + "\n  in " + ShowNode(graph, n) + (n.place.empty() ? "" : ", at " + n.place);
}

Specialisation::Specialisation(std::shared_ptr<const Graph> g, std::vector<std::int64_t> sizes,
                               std::span<const anyop_value> inputs,
                               const SpecialiseOptions& options)
    : graph(std::move(g)), symbols(std::move(sizes)) {
  try {
    Specialiser(this, inputs, options.constants).Run();
    // Regions first: values that only a region uses need no memory of their own.
    if (options.regions && !device_kind) FindRegions(this, options.block_rows);
    PlaceMemory(this, options.share_memory);
    if (IsChecking()) CheckMemoryOf(*this);
  } catch (...) {
    ReleasePlans();
    throw;
  }
}

Specialisation::~Specialisation() { ReleasePlans(); }

Array ConstantsOnDevices::On(DLDevice device, const Array& constant) {
  const std::lock_guard lock(mutex_);
  Array& copy = copies_[{PlaceOf(device), constant.data()}];
  if (copy.is_none()) copy = constant.On(device);  // waits for the copy: any stream may read it
  return copy;
}

// Work that was put on any stream may still read a copy, whose memory is given back here.
ConstantsOnDevices::~ConstantsOnDevices() {
  for (const auto& [place, copy] : copies_) {
    const DLDevice device = copy.device().dl();
    DeviceKindOf(device).table.synchronize(device.device_id, nullptr);
  }
}

void Specialisation::ReleasePlans() {
  for (PlannedCall& c : calls) Release(c.plan);
  for (Region& r : regions) anyop::ReleasePlans(r);
}

}  // namespace anyop
