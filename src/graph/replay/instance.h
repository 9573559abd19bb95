// SPDX-License-Identifier: Apache-2.0
// A specialisation with addresses: what one thread replays at a time.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "graph/replay/ready_region.h"
#include "graph/specialise/specialisation.h"
#include "runtime/plan/services.h"
#include "runtime/run/device_call.h"

namespace anyop {

// Memory of one replay at a time; grows, and is shared by specialisations.
class GraphArena {
 public:
  GraphArena() = default;
  ~GraphArena();
  GraphArena(const GraphArena&) = delete;
  GraphArena& operator=(const GraphArena&) = delete;

  // Makes room; what was there is lost. Throws OutOfMemory.
  void Reserve(std::int64_t bytes);
  char* data() const { return data_; }

 private:
  char* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

class Instance {
 public:
  explicit Instance(const Specialisation& s);

  // Points everything at this memory. Cheap where nothing has moved.
  // symbols: of this call.
  void Bind(char* arena, std::span<const std::int64_t> symbols, std::span<const anyop_value> inputs,
            std::span<const DLTensor* const> outputs);
  // Runs the nodes. Throws with the place of the node.
  void Run();
  // The same, one node after the other. ns: per node of the graph, the time of its call; 0 for
  // those that are not called.
  void RunTimed(std::span<double> ns);

  // Before the first run: whether any node's tensors overlap against its operator's rule.
  void CheckMemory();

 private:
  struct ReadyCall {
    anyop_run run;
    const anyop_value* frame;
    const PlannedCall* planned;
    bool is_direct;
    anyop_context context;
  };
  struct Moved {  // a tensor, and where it begins from its base
    int value;
    std::int64_t offset;
  };
  struct Tally {
    const Operator* op;
    const Plan* plan;
    std::uint64_t calls;
  };

  void AddCall(const PlannedCall& planned);
  void AddTally(const PlannedCall& planned);
  void MoveTo(const std::vector<Moved>& moved, char* base);
  void SetNumbers(std::span<const std::int64_t> symbols, std::span<const anyop_value> inputs);
  void Check(const ReadyCall& call) const;
  void RunChecked();
  std::optional<PartsOfACall> BeginOnDevice() const;
  void Copy(const DLTensor& from, void* to, Device device) const;
  void CopyIn() const;
  void CopyOut() const;
  std::size_t FirstWrite() const;
  std::size_t RunCall(std::size_t call, bool is_observed);
  std::size_t RunRegion(std::size_t call, bool is_observed, bool is_alone, std::span<double> ns);
  bool IsObserved() const;
  bool RunSpecially(std::size_t call, bool is_observed);
  void Count() const;
  void CountUpTo(std::size_t call) const;
  [[noreturn]] void FailAt(std::size_t call, int code, RunState& state);

  const Specialisation& s_;
  std::vector<DLTensor> tensors_;  // by value
  std::vector<const DLTensor*> tensor_at_;
  std::vector<anyop_value> frames_;  // never resized: calls_ and regions_ point into it
  std::vector<const DLTensor*> lists_;
  std::vector<ReadyCall> calls_;
  std::deque<RunState> states_;  // of calls_, which point to them
  std::deque<ReadyRegion> regions_;
  std::size_t first_write_ = 0;  // the call, or the first of its region, before which none writes
                                 // what outlives a replay
  std::vector<Tally> tallies_;   // one per kernel: a replay adds to each counter once
  std::vector<Moved> in_arena_;
  std::vector<std::vector<Moved>> in_inputs_, in_outputs_;
  char* arena_ = nullptr;
  std::vector<char*> inputs_, outputs_;  // where they were bound last
  std::span<const anyop_value> given_;
};

}  // namespace anyop
