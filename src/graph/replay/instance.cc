// SPDX-License-Identifier: Apache-2.0
#include "graph/replay/instance.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "anyop/stream.h"
#include "anyop/tensor.h"
#include "graph/ir/alias.h"
#include "graph/replay/arena_watch.h"
#include "graph/replay/progress.h"
#include "platform/byte_count.h"
#include "platform/error.h"
#include "platform/pages.h"
#include "runtime/memory/copy.h"
#include "runtime/observe/check_mode.h"
#include "runtime/run/device_copy.h"
#include "runtime/run/memory_check.h"
#include "runtime/run/run.h"
#include "signature/fitted.h"

namespace anyop {
namespace {

constinit thread_local Progress* innermost_call = nullptr;
constinit thread_local bool last_has_written = false;

}  // namespace

Progress::Progress() : outer_(innermost_call) { innermost_call = this; }

Progress::~Progress() {
  last_has_written = has_written_;
  innermost_call = outer_;
  // What a graph within this call has written, the outer call has written, too.
  if (outer_) outer_->has_written_ |= has_written_;
}

void Progress::Writes() {
  if (innermost_call) innermost_call->has_written_ = true;
}

bool Progress::LastHasWritten() { return last_has_written; }

GraphArena::~GraphArena() {
  if (data_) UnmapPages(data_, bytes_);
}

void GraphArena::Reserve(std::int64_t bytes) {
  if (std::uint64_t(bytes) <= bytes_ && data_) return;
  // First the old memory goes, in which nothing is kept: both at once need not fit.
  if (data_) UnmapPages(std::exchange(data_, nullptr), std::exchange(bytes_, 0));
  const std::uint64_t size = PageBytes(std::max<std::uint64_t>(std::uint64_t(bytes), 1));
  data_ = bytes > kMostBytes ? nullptr : static_cast<char*>(MapPages(size));
  if (!data_) {
    Fail(ANYOP_OUT_OF_MEMORY, "graph: no memory for an arena of " + std::to_string(bytes) +
                                  " bytes. Try smaller inputs, or fewer calls at once.");
  }
  bytes_ = size;
}

Instance::Instance(const Specialisation& s)
    : s_(s),
      tensors_(s.tensors),
      tensor_at_(s.tensor_at.size(), nullptr),
      frames_(s.frame_values),
      lists_(s.list_elements + 1),
      in_inputs_(s.graph->inputs.size()),
      in_outputs_(s.graph->outputs.size()),
      inputs_(s.graph->inputs.size(), nullptr),
      outputs_(s.graph->outputs.size(), nullptr) {
  for (int v = 0; v < int(tensors_.size()); ++v) {
    if (!s.tensor_at[std::size_t(v)]) continue;
    DLTensor& t = tensors_[std::size_t(v)];
    tensor_at_[std::size_t(v)] = &t;
    const MemoryPlace& place = s.places[std::size_t(v)];
    const std::int64_t offset = s.layouts[std::size_t(v)].offset + place.offset;
    if (place.kind == MemoryPlace::kFixed) {
      t.data = static_cast<char*>(s.arrays[std::size_t(s.graph->Root(v))].data()) + offset;
    } else if (place.kind == MemoryPlace::kArena) {
      in_arena_.push_back({v, offset});
    } else if (place.kind == MemoryPlace::kInput || place.kind == MemoryPlace::kOutput) {
      auto& moved = place.kind == MemoryPlace::kInput ? in_inputs_ : in_outputs_;
      moved[std::size_t(place.index)].push_back({v, offset});
    }
  }
  calls_.reserve(s.calls.size());
  for (const PlannedCall& planned : s.calls) AddCall(planned);
  for (const Region& region : s.regions) {
    regions_.emplace_back(s, region, tensors_, frames_.data());
  }
  first_write_ = FirstWrite();
}

std::size_t Instance::FirstWrite() const {
  const Graph& graph = *s_.graph;
  const auto outlives = [&](int value) {
    const GraphValue::Kind kind = graph.value(graph.Root(value)).kind;
    return kind == GraphValue::kInput || kind == GraphValue::kState;
  };
  std::size_t first = 0;  // of a region
  for (std::size_t i = 0; i < s_.calls.size(); ++i) {
    const int region = s_.calls[i].region;
    if (region < 0 || i == 0 || s_.calls[i - 1].region != region) first = i;
    const GraphNode& node = graph.nodes[std::size_t(s_.calls[i].node)];
    const std::vector<int> written = WrittenValues(node);
    if (std::any_of(written.begin(), written.end(), outlives)) return first;
  }
  return s_.calls.size();
}

void Instance::AddCall(const PlannedCall& planned) {
  const GraphNode& node = s_.graph->nodes[std::size_t(planned.node)];
  anyop_value* frame = frames_.data() + planned.frame;
  FillFrame({*s_.graph, s_.symbols, tensor_at_, s_.scalars}, node, frame,
            lists_.data() + planned.list);
  for (std::size_t r = 0; r < node.results.size(); ++r) {
    if (node.results[r] < 0) continue;
    frame[std::size_t(node.op->n_params) + r] =
        TensorValue(tensor_at_[std::size_t(node.results[r])]);
  }
  RunState& state = states_.emplace_back(*planned.plan);
  const bool is_direct = planned.mode == PlannedCall::kDirect && planned.region < 0;
  ReadyCall call{planned.plan->run, frame, &planned, is_direct, planned.plan->context};
  call.context.runtime = &state;
  calls_.push_back(call);
  AddTally(planned);
}

void Instance::AddTally(const PlannedCall& planned) {
  if (planned.mode == PlannedCall::kGeneral) return;  // anyop::Run counts it
  for (Tally& t : tallies_) {
    if (t.op != planned.plan->op || t.plan->counters != planned.plan->counters) continue;
    ++t.calls;
    return;
  }
  tallies_.push_back({planned.plan->op, planned.plan, 1});
}

void Instance::MoveTo(const std::vector<Moved>& moved, char* base) {
  for (const Moved& m : moved) tensors_[std::size_t(m.value)].data = base + m.offset;
}

void Instance::Bind(char* arena, std::span<const std::int64_t> symbols,
                    std::span<const anyop_value> inputs, std::span<const DLTensor* const> outputs) {
  given_ = inputs;
  if (arena != arena_) {
    arena_ = arena;
    MoveTo(in_arena_, arena);
    for (ReadyCall& call : calls_) {
      if (call.planned->workspace >= 0) call.context.workspace = arena + call.planned->workspace;
    }
    for (ReadyRegion& region : regions_) region.MoveTo(arena);
  }
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (inputs[k].tag != ANYOP_TENSOR) continue;
    char* at = BaseOf(*inputs[k].t);
    if (at != inputs_[k]) MoveTo(in_inputs_[k], inputs_[k] = at);
  }
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    char* at = BaseOf(*outputs[k]);
    if (at != outputs_[k]) MoveTo(in_outputs_[k], outputs_[k] = at);
  }
  if (!s_.numbers.empty()) SetNumbers(symbols, inputs);
}

void Instance::SetNumbers(std::span<const std::int64_t> symbols,
                          std::span<const anyop_value> inputs) {
  const Graph& graph = *s_.graph;
  const auto input_of = [&](int value) -> const anyop_value& {
    const auto at = std::find(graph.inputs.begin(), graph.inputs.end(), value);
    return inputs[std::size_t(at - graph.inputs.begin())];
  };
  for (const NumberPlace& n : s_.numbers) {
    const anyop_value v = n.scalar >= 0 ? input_of(n.scalar) : IntValue(n.size->At(symbols));
    frames_[n.at] = n.is_float ? Fitted(ParamKind::kFloat, v) : v;
  }
  for (ReadyRegion& region : regions_) region.SetNumbers();
}

void Instance::CheckMemory() {
  int call = 0;
  try {
    for (; call < int(calls_.size()); ++call) {
      const ReadyCall& c = calls_[std::size_t(call)];
      if (c.planned->region >= 0) continue;
      anyop::CheckMemory(*c.planned->plan->op, *c.planned->plan, c.frame);
    }
    for (ReadyRegion& region : regions_) region.CheckMemory(&call);
  } catch (const Error& e) {
    Fail(e.code, InNode(*s_.graph, calls_[std::size_t(call)].planned->node, e.what()));
  }
}

void Instance::Check(const ReadyCall& call) const {
  const PlannedCall& p = *call.planned;
  const Operator& op = *p.plan->op;
  std::string error;
  if (p.has_numbers && !CheckScalars(*op.contract, p.plan->form, call.frame, &error)) {
    Fail(ANYOP_INVALID_ARGUMENT, op.Message(error));
  }
  CheckIndices(op, *p.plan, p.index_checks, call.frame);
  CallCheck(op, *p.plan, call.frame, op.data->check);
}

bool Instance::IsObserved() const {
  bool is_observed = false;
  for (const Tally& t : tallies_) {
    is_observed |= t.op->entry.load(std::memory_order_relaxed) != &RunPlan;
  }
  return is_observed;
}

void Instance::Copy(const DLTensor& from, void* to, Device device) const {
  if (device.is_host()) return CopyToPacked(from, to);
  if (!Device(from.device).is_host()) return PackOnDevice(from, to);
  DLTensor there = from;  // a planned input that is returned
  there.data = to;
  there.byte_offset = 0;
  there.strides = nullptr;
  there.device = device.dl();
  CopyFromHost(BaseOf(from), there);
}

void Instance::CopyIn() const {
  for (const BoundaryCopy& c : s_.copies_in) {
    const DLTensor& to = tensors_[std::size_t(c.value)];
    Copy(*given_[std::size_t(c.index)].t, to.data, to.device);
  }
}

void Instance::CopyOut() const {
  for (const BoundaryCopy& c : s_.copies_out) {
    Copy(tensors_[std::size_t(c.value)], outputs_[std::size_t(c.index)], s_.device);
  }
}

// Returns the call to go on with: a region is run as a whole. A bare kernel takes the shortest way;
// all else is behind one branch.
inline std::size_t Instance::RunCall(std::size_t i, bool is_observed) {
  if (i == first_write_) Progress::Writes();
  const ReadyCall& call = calls_[i];
  if (!call.is_direct || is_observed) [[unlikely]] {
    if (call.planned->region >= 0) return RunRegion(i, is_observed, is_observed, {});
    if (RunSpecially(i, is_observed)) return i + 1;
  }
  if (const int code = call.run(&call.context, call.frame)) [[unlikely]] {
    FailAt(i, code, *static_cast<RunState*>(call.context.runtime));
  }
  return i + 1;
}

// is_alone: on this thread. ns: per node; may be empty.
std::size_t Instance::RunRegion(std::size_t i, bool is_observed, bool is_alone,
                                std::span<double> ns) {
  const std::size_t number = std::size_t(calls_[i].planned->region);
  ReadyRegion& region = regions_[number];
  int call = int(i);
  try {
    const ReadyRegion::Failure f =
        is_alone ? region.RunAlone(is_observed, ns, &call) : region.Run();
    if (f.call < 0) [[likely]]
      return std::size_t(s_.regions[number].last) + 1;
    call = f.call;
    FailAt(std::size_t(call), f.code, *f.state);
  } catch (const Error& e) {
    if (!is_observed) throw;
    Fail(e.code, InNode(*s_.graph, calls_[std::size_t(call)].planned->node, e.what()));
  }
}

// A device tells errors of earlier work late. They are raised before the first node, so that no
// node of this graph is blamed for them.
std::optional<PartsOfACall> Instance::BeginOnDevice() const {
  if (!s_.device_kind) return std::nullopt;
  const int number = s_.device.device_id;
  RaiseLate(*s_.device_kind, number, CurrentStream(*s_.device_kind, number));
  return std::optional<PartsOfACall>(std::in_place);
}

void Instance::Run() {
  const bool is_observed = IsObserved();
  const auto parts = BeginOnDevice();
  if (is_observed && IsChecking() && !s_.device_kind) return RunChecked();
  CopyIn();
  const std::size_t n = calls_.size();
  for (std::size_t i = 0; i < n;) i = RunCall(i, is_observed);
  if (!is_observed) Count();  // an observed call counts itself
  CopyOut();
}

// Node after node through the operators' entries, which check them, and with an eye on the arena.
void Instance::RunChecked() {
  ArenaWatch watch(s_, arena_);
  CopyIn();
  watch.Start();
  for (std::size_t i = 0; i < calls_.size();) {
    const std::size_t next = RunCall(i, /*is_observed=*/true);
    watch.After(int(i), int(next) - 1);
    i = next;
  }
  CopyOut();
}

void Instance::RunTimed(std::span<double> ns) {
  const auto wait = [&] {
    if (s_.device_kind) Stream::Current(s_.device).Synchronize();
  };
  const auto parts = BeginOnDevice();
  CopyIn();
  wait();
  const bool is_observed = IsObserved();
  std::fill(ns.begin(), ns.end(), 0.0);
  for (std::size_t i = 0; i < calls_.size();) {
    if (calls_[i].planned->region >= 0) {
      if (i == first_write_) Progress::Writes();
      i = RunRegion(i, is_observed, /*is_alone=*/true, ns);
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    const std::size_t next = RunCall(i, is_observed);
    wait();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    ns[std::size_t(calls_[i].planned->node)] += took.count();
    i = next;
  }
  if (!is_observed) Count();
  CopyOut();
}

// Whatever a node needs beside its bare kernel. Returns whether the node is done; if not, its
// checks have passed and the kernel is to be called.
bool Instance::RunSpecially(std::size_t i, bool is_observed) {
  const ReadyCall& call = calls_[i];
  try {
    const PlannedCall& p = *call.planned;
    if (is_observed || p.mode == PlannedCall::kGeneral) {
      anyop::Run(*s_.graph->nodes[std::size_t(p.node)].op, *p.plan, frames_.data() + p.frame);
      return true;
    }
    Check(call);
  } catch (const Error& e) {
    CountUpTo(i);
    Fail(e.code, InNode(*s_.graph, call.planned->node, e.what()));
  }
  return false;
}

void Instance::Count() const {
  for (const Tally& t : tallies_) CountersOf(*t.op, *t.plan).calls.Add(t.calls);
}

// Of a replay that ends early: the kernels before node i.
void Instance::CountUpTo(std::size_t i) const {
  for (std::size_t k = 0; k < i; ++k) {
    const PlannedCall& p = *calls_[k].planned;
    if (p.mode != PlannedCall::kGeneral) CountersOf(*p.plan->op, *p.plan).calls.Add();
  }
}

void Instance::FailAt(std::size_t i, int code, RunState& state) {
  const PlannedCall& p = *calls_[i].planned;
  CountUpTo(i + 1);
  try {
    FailKernel(*p.plan, code, state);
  } catch (const Error& e) {
    delete std::exchange(state.error, nullptr);
    Fail(e.code, InNode(*s_.graph, p.node, e.what()));
  }
}

}  // namespace anyop
