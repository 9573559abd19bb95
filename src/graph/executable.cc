// SPDX-License-Identifier: Apache-2.0
#include "graph/executable.h"

#include <algorithm>
#include <bit>
#include <mutex>
#include <optional>

#include "graph/record.h"
#include "graph/replay/boundary.h"
#include "graph/replay/instance.h"
#include "graph/specialise/inputs.h"
#include "graph/specialise/specialisation.h"
#include "platform/error.h"
#include "platform/float_mode.h"
#include "platform/of_thread.h"
#include "runtime/device/device.h"
#include "runtime/observe/record.h"
#include "runtime/plan/policy.h"
#include "runtime/plan/scope_carrier.h"
#include "runtime/plan/thread_state.h"

namespace anyop {
namespace {

using Key = std::vector<std::uint64_t>;

// Memory of the call that a thread makes, kept so that a replay allocates nothing.
struct Scratch {
  std::vector<std::int64_t> symbols;
  Key key;
  std::vector<std::int64_t> replayed;  // symbols of a call with numbers
};

std::shared_ptr<const Graph> Compiled(Graph graph, const CompileOptions& options) {
  if (options.optimize) Optimize(&graph, options.on_pass, options.fuse);
  return std::make_shared<const Graph>(std::move(graph));
}

}  // namespace

class Executable::Impl {
 public:
  Impl(Graph g, const CompileOptions& options)
      : graph(Compiled(std::move(g), options)),
        inputs_(*graph),
        boundary_(*graph),
        capacity_(std::max<std::size_t>(options.specialisations, 1)),
        options_{options.share_memory, options.regions, options.block_rows},
        name_(options.name) {}

  std::shared_ptr<Specialisation> Prepare(std::span<const anyop_value> inputs) {
    auto& [symbols, key, _] = OfThread<Scratch>::Get();
    symbols.assign(graph->symbols.size(), 0);
    inputs_.Bind(inputs, symbols.data());
    MakeKey(inputs, symbols, &key);
    if (auto found = Find(key)) return found;
    // A copy, and no lock: planning may run Python code, which may call a graph on this thread and
    // so write to `key`.
    const Key mine = key;
    SpecialiseOptions options = options_;
    options.constants = &constants_;
    auto made = std::make_shared<Specialisation>(graph, symbols, inputs, options);
    std::lock_guard lock(mutex_);
    if (auto found = FindLocked(mine)) return found;  // another thread was first
    entries_.insert(entries_.begin(), {mine, made});
    if (entries_.size() > capacity_) entries_.pop_back();
    return made;
  }

  DLDevice DeviceOfInput(int i) const {
    return inputs_.IsPlanned(i) ? kHostDevice : inputs_.StateDevice();
  }

  // run(instance) with everything bound.
  template <class F>
  void Replay(Specialisation& s, std::span<const anyop_value> inputs,
              std::span<const DLTensor* const> outputs, F&& run) {
    if (s.graph != graph) {
      Fail(ANYOP_INVALID_ARGUMENT, "graph: this specialisation is another graph's.");
    }
    boundary_.Check(s, inputs, outputs);
    std::vector<std::int64_t>& symbols = OfThread<Scratch>::Get().replayed;
    if (!s.numbers.empty()) {
      // Symbols that are sizes of results are known to the specialisation alone; those of numbers
      // may differ in each call and are bound anew.
      symbols = s.symbols;
      inputs_.Bind(inputs, symbols.data());
    }
    Loan loan(this, &s);
    // On a device each replay leases its own arena, in the order of the stream: the work of this
    // replay may still run when the next one is put there.
    std::optional<DeviceMemory> memory;
    if (s.device_kind) {
      memory.emplace(*s.device_kind, s.device.device_id,
                     std::uint64_t(std::max<std::int64_t>(s.memory.peak_bytes, 1)));
    }
    loan.instance->Bind(memory ? static_cast<char*>(memory->data()) : loan.arena->data(), symbols,
                        inputs, outputs);
    if (loan.is_new) loan.instance->CheckMemory();
    loan.is_new = false;
    // Before the run, which may change the state. A record holds memory of the host alone.
    if (IsRecording() && !s.device_kind) RecordGraph(name_, s, inputs);
    // The caller may have changed the float mode of its thread to flush subnormal
    // numbers, say. Workers would not, and results would depend on which thread runs a part.
    const DefaultFloatMode mode;
    run(*loan.instance);
  }

  const std::shared_ptr<const Graph> graph;

 private:
  // An instance and an arena for one replay; both go back to where the next one finds them.
  struct Loan {
    Loan(Impl* owner, Specialisation* from) : impl(owner), s(from) {
      {
        std::lock_guard lock(impl->mutex_);
        Take(&s->idle, &instance);
        Take(&impl->arenas_, &arena);
      }
      if (!arena) arena = std::make_unique<GraphArena>();
      if (!s->device_kind) arena->Reserve(s->memory.peak_bytes);
      is_new = !instance;
      if (is_new) instance = std::make_shared<Instance>(*s);
    }
    ~Loan() {
      std::lock_guard lock(impl->mutex_);
      // An instance that is still new was refused by CheckMemory, which looks at new ones only:
      // the next replay makes one, so that it is refused, too.
      if (!is_new) s->idle.push_back(std::move(instance));
      impl->arenas_.push_back(std::move(arena));
    }
    template <class T>
    static void Take(std::vector<T>* from, T* to) {
      if (from->empty()) return;
      *to = std::move(from->back());
      from->pop_back();
    }
    Impl* impl;
    Specialisation* s;
    std::shared_ptr<Instance> instance;
    std::unique_ptr<GraphArena> arena;
    bool is_new = false;
  };

  struct Entry {
    Key key;
    std::shared_ptr<Specialisation> specialisation;
  };

  // Scope, which inputs are copied, then the sizes and numbers that decide about plans.
  void MakeKey(std::span<const anyop_value> inputs, const std::vector<std::int64_t>& symbols,
               Key* key) const {
    FollowCarriedScope();  // on a framework's own thread the scope of whoever it works for counts
    const ThreadState& state = State();
    key->assign(1, ScopeWord(state));
    const DLDevice device = inputs_.DeviceOf(inputs);
    key->push_back(std::bit_cast<std::uint64_t>(device));
    std::uint64_t copied = 0;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (inputs[k].tag == ANYOP_TENSOR && GraphInputs::NeedsCopy(*inputs[k].t)) {
        if (state.scope.is_strict) FailStrict(int(k));
        copied |= 1ull << k % 64;
      }
      if (k % 64 == 63 || k + 1 == inputs.size()) {
        key->push_back(copied);
        copied = 0;
      }
    }
    for (std::size_t k = 0; k < symbols.size(); ++k) {
      if (inputs_.IsInKey(int(k))) key->push_back(std::uint64_t(symbols[k]));
    }
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (!inputs_.IsNumberInKey(int(k))) continue;
      const anyop_value& v = inputs[k];
      // As a float parameter takes it: 1 and 1.0 share a plan.
      const double f = v.tag == ANYOP_FLOAT ? v.f : double(v.i);
      key->push_back(std::bit_cast<std::uint64_t>(f));
    }
  }
  [[noreturn]] void FailStrict(int k) const {
    Fail(ANYOP_UNSUPPORTED, "graph: " + graph->value(graph->inputs[std::size_t(k)]).name +
                                " is not contiguous or misaligned and would be copied, which "
                                "strict mode refuses. Try a contiguous tensor.");
  }

  std::shared_ptr<Specialisation> Find(const Key& key) {
    std::lock_guard lock(mutex_);
    return FindLocked(key);
  }
  std::shared_ptr<Specialisation> FindLocked(const Key& key) {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].key != key) continue;
      std::rotate(entries_.begin(), entries_.begin() + std::ptrdiff_t(i),
                  entries_.begin() + std::ptrdiff_t(i) + 1);
      return entries_.front().specialisation;
    }
    return nullptr;
  }

  const GraphInputs inputs_;
  const Boundary boundary_;
  const std::size_t capacity_;
  const SpecialiseOptions options_;
  const std::string name_;
  ConstantsOnDevices constants_;
  std::mutex mutex_;            // guards the members below, and every Specialisation::idle
  std::vector<Entry> entries_;  // the last used first
  std::vector<std::unique_ptr<GraphArena>> arenas_;
};

Executable::Executable(Graph graph, const CompileOptions& options)
    : impl_(std::make_unique<Impl>(std::move(graph), options)) {}
Executable::~Executable() = default;

const Graph& Executable::graph() const { return *impl_->graph; }

DLDevice Executable::DeviceOfInput(int i) const { return impl_->DeviceOfInput(i); }

std::shared_ptr<Specialisation> Executable::Prepare(std::span<const anyop_value> inputs) {
  return impl_->Prepare(inputs);
}

void Executable::Replay(Specialisation& s, std::span<const anyop_value> inputs,
                        std::span<const DLTensor* const> outputs) {
  impl_->Replay(s, inputs, outputs, [](Instance& instance) { instance.Run(); });
}

void Executable::ReplayTimed(Specialisation& s, std::span<const anyop_value> inputs,
                             std::span<const DLTensor* const> outputs, std::span<double> ns) {
  impl_->Replay(s, inputs, outputs, [&](Instance& instance) { instance.RunTimed(ns); });
}

std::span<const ResultShape> OutputsOf(const Specialisation& s) { return s.outputs; }
DLDevice DeviceOf(const Specialisation& s) { return s.device; }
double EstimatedNs(const Specialisation& s) { return s.estimated_ns; }

MemoryReport ReportOf(const Specialisation& s) {
  MemoryReport r{s.memory.peak_bytes, s.memory.bound_bytes, s.unshared_bytes, int(s.calls.size()),
                 0};
  for (const PlannedCall& c : s.calls) r.kernels_checked += c.mode != PlannedCall::kDirect;
  return r;
}

}  // namespace anyop
