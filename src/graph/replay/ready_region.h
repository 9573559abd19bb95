// SPDX-License-Identifier: Apache-2.0
// A region with addresses: frames for each thread.
#pragma once
#include <atomic>
#include <deque>
#include <span>
#include <vector>

#include "graph/specialise/region.h"
#include "runtime/plan/services.h"

namespace anyop {

class ReadyRegion {
 public:
  // tensors: by value, moved by the owner. frames: of all calls of the specialisation.
  ReadyRegion(const Specialisation& s, const Region& region, std::span<const DLTensor> tensors,
              const anyop_value* frames);

  // The arena that the memory of threads lies in.
  void MoveTo(char* arena);
  // Takes over the numbers of the call, which the frames hold.
  void SetNumbers();

  // Throws where tensors of a call overlap against its operator's rule. call: as in RunAlone.
  void CheckMemory(int* call);

  // The first call that failed, with its code and error; {-1} if none did.
  struct Failure {
    int call = -1, code = 0;
    RunState* state = nullptr;
  };
  Failure Run();
  // Block by block on this thread, through the operators' entries where they are observed. ns: per
  // call, to which the time of each is added; may be empty. call: set to the one that runs, for
  // what entries throw.
  Failure RunAlone(bool is_observed, std::span<double> ns, int* call);

 private:
  struct Slot {  // what one thread at a time works with
    std::vector<DLTensor> tensors;
    std::vector<std::int64_t> sizes;  // shape, then strides of each
    std::vector<anyop_value> frames;
    std::vector<anyop_context> blocks, rests;  // per call
    std::deque<RunState> states;               // per call
    Failure failure;
  };
  struct Number {
    std::size_t from, to;  // in the frames of all calls, in those of a slot
  };

  void AddSlot(const anyop_value* frames);
  static void RunSlots(void* self, std::int64_t begin, std::int64_t end);
  void ClaimBlocks(Slot& slot);
  // Points a slot at block b; returns whether it is the last one, with fewer rows.
  bool Cut(Slot& slot, std::int64_t b) const;
  int RunCall(Slot& slot, std::size_t k, bool is_rest) const;

  const Specialisation& s_;
  const Region& region_;
  const std::span<const DLTensor> tensors_;
  const anyop_value* const frames_;
  std::deque<Slot> slots_;
  std::vector<Number> numbers_;
  alignas(64) std::atomic<std::int64_t> next_{0};  // a line apart from what threads only read
  std::atomic<bool> has_failed_{false};
};

}  // namespace anyop
